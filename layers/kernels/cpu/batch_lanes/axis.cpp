// Solves, for each tap, which outputs read an input and which fall into the padding, once before the loops: the loops
// themselves have no test for borders.
#include "layers/kernels/cpu/batch_lanes/axis.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace moka::batch_lanes {
namespace {

// The outputs first, first + step, .., last that meet an input at one tap.
struct Reach {
  int64_t tap = 0;
  int64_t first = 0;
  int64_t last = 0;
};

Reachable RunOf(const Axis& axis, const Reach& tap, int64_t first, int64_t last, int64_t step) {
  Reachable run;
  run.output = first;
  run.output_step = step;
  run.count = (last - first) / step + 1;
  run.first_tap = tap.tap;
  run.input = axis.InputOf(first, tap.tap);
  run.input_step = axis.is_gradient ? 1 : axis.stride;
  return run;
}

// Taps whose outputs are equal modulo `step`: together where all reach, the rest each alone.
void AddRuns(const Axis& axis, const std::vector<Reach>& taps, int64_t step, std::vector<Reachable>& runs) {
  int64_t first = taps[0].first;
  int64_t last = taps[0].last;
  int64_t most = 0;
  for (const Reach& tap : taps) {
    first = std::max(first, tap.first);
    last = std::min(last, tap.last);
    most = std::max(most, (tap.last - tap.first) / step + 1);
  }
  // Not where little would be left together: single taps over long runs are faster than over short ends.
  const bool together = taps.size() > 1 && 4 * ((last - first) / step + 1) >= 3 * most && first <= last;
  if (together) {
    Reachable run = RunOf(axis, taps[0], first, last, step);
    run.taps = static_cast<int64_t>(taps.size());
    run.tap_step = taps[1].tap - taps[0].tap;
    run.input_tap = axis.InputOf(first, taps[1].tap) - run.input;
    runs.push_back(run);
  }
  for (const Reach& tap : taps) {
    if (!together) {
      runs.push_back(RunOf(axis, tap, tap.first, tap.last, step));
      continue;
    }
    if (tap.first < first) runs.push_back(RunOf(axis, tap, tap.first, first - step, step));
    if (tap.last > last) runs.push_back(RunOf(axis, tap, last + step, tap.last, step));
  }
}

}  // namespace

int64_t Axis::InputOf(int64_t output, int64_t tap) const {
  const int64_t at = is_gradient ? output + pad - tap * dilation : output * stride - pad + tap * dilation;
  if (at < 0 || (is_gradient && at % stride != 0)) return -1;
  const int64_t input = is_gradient ? at / stride : at;
  return input < inputs ? input : -1;
}

// Taps that reach an output form an arithmetic progression, so first, step and count say all.
Taps TapsOf(const Axis& axis, int64_t output) {
  Taps taps;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const int64_t input = axis.InputOf(output, tap);
    if (input < 0) continue;
    if (taps.count == 0) {
      taps.first = tap;
      taps.input = input;
    } else if (taps.count == 1) {
      taps.step = tap - taps.first;
      taps.input_step = input - taps.input;
    }
    ++taps.count;
  }
  return taps;
}

// In a gradient outputs of one remainder modulo the stride meet the same taps, so runs are made remainder by remainder.
std::vector<Reachable> RunsOf(const Axis& axis, int64_t tap_begin, int64_t tap_end) {
  const int64_t step = axis.is_gradient ? axis.stride : 1;
  std::map<int64_t, std::vector<Reach>> groups;  // by outputs modulo step
  for (int64_t tap = tap_begin; tap < tap_end; ++tap) {
    Reach reach{tap, -1, -1};
    for (int64_t output = 0; output < axis.outputs; ++output) {
      if (axis.InputOf(output, tap) < 0) continue;
      if (reach.first < 0) reach.first = output;
      reach.last = output;
    }
    if (reach.first >= 0) groups[reach.first % step].push_back(reach);
  }
  std::vector<Reachable> runs;
  for (const auto& [rest, taps] : groups) AddRuns(axis, taps, step, runs);
  return runs;
}

}  // namespace moka::batch_lanes
