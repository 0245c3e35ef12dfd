// One spatial axis of a convolution or of its gradient of x, as what the kernels loop over: which taps of the window
// an output position has, and which output positions share their taps. Padding is never multiplied: positions whose
// window reaches outside have fewer taps.
#pragma once

#include <cstdint>
#include <vector>

namespace moka::batch_lanes {

struct Axis {
  int64_t inputs = 0;   // of what is read: x, or dy in the gradient
  int64_t outputs = 0;  // of what is written
  int64_t taps = 0;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;
  bool is_gradient = false;

  // The input that an output meets at a tap; -1 if there is none.
  int64_t InputOf(int64_t output, int64_t tap) const;
};

// Taps first + j*step of one output, which meet the inputs input + j*input_step.
struct Taps {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
  int64_t input = 0;
  int64_t input_step = 0;
};
Taps TapsOf(const Axis& axis, int64_t output);

// Outputs output + p*output_step, p < count, that all have the taps first_tap + j*tap_step, j < taps, and there meet
// the inputs input + p*input_step + j*input_tap.
struct Reachable {
  int64_t output = 0;
  int64_t output_step = 1;
  int64_t count = 0;
  int64_t first_tap = 0;
  int64_t tap_step = 1;
  int64_t taps = 1;
  int64_t input = 0;
  int64_t input_step = 1;
  int64_t input_tap = 0;
};
// Every pair of an output and a tap in [tap_begin, tap_end) that meets an input, once.
std::vector<Reachable> RunsOf(const Axis& axis, int64_t tap_begin, int64_t tap_end);

}  // namespace moka::batch_lanes
