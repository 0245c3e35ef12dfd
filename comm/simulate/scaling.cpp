// Draws each rank's pace for a step from the noise asked for, then walks the plan's buckets once: a bucket begins when
// its slowest rank is ready and the one before has ended.
#include "comm/simulate/scaling.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

// When a rank has computed t seconds' worth of its step: stall_s + factor * t.
struct RankPace {
  double factor = 1;
  double stall_s = 0;
  double At(double t) const { return stall_s + factor * t; }
};

bool IsNoisy(const NoiseOptions& noise) {
  return noise.jitter > 0 || (noise.stall_probability > 0 && noise.stall_s > 0) || !noise.slow.empty();
}

std::vector<RankPace> DrawPaces(int ranks, const NoiseOptions& noise, uint64_t step) {
  std::vector<RankPace> paces(static_cast<size_t>(ranks));
  RandomStream random(noise.seed, step);
  for (RankPace& pace : paces) {
    // Mean 1: jitter spreads a rank's steps and does not slow it down.
    pace.factor = std::exp(random.Normal(0, noise.jitter) - noise.jitter * noise.jitter / 2);
    pace.stall_s = random.Uniform() < noise.stall_probability ? noise.stall_s : 0;
  }
  for (const auto& [rank, factor] : noise.slow) paces[static_cast<size_t>(rank)].factor *= factor;
  return paces;
}

struct StepTimes {
  double compute_s = 0;
  double end_s = 0;
  size_t last_rank = 0;
};

StepTimes OneStep(const FusionInput& input, const FusionPlan& plan, const std::vector<RankPace>& paces) {
  const auto last_at = [&](double t) {
    double last = 0;
    for (const RankPace& pace : paces) last = std::max(last, pace.At(t));
    return last;
  };
  double free = 0;
  for (const Bucket& bucket : plan.buckets) {
    const double ready = input.gradients[static_cast<size_t>(bucket.first + bucket.count) - 1].ready_s;
    free = std::max(free, last_at(input.other_s + ready)) + (bucket.end_s - bucket.begin_s);
  }
  StepTimes times;
  const double whole = input.other_s + input.backward_s;
  times.compute_s = last_at(whole);
  times.end_s = std::max(free, times.compute_s);
  while (paces[times.last_rank].At(whole) < times.compute_s) ++times.last_rank;
  return times;
}

}  // namespace

ScalingResult SimulateSteps(const FusionInput& input, const FusionPlan& plan, int ranks, const NoiseOptions& noise) {
  Require(ranks >= 1 && noise.steps >= 1 && HashOf(input.gradients) == plan.gradients_hash,
          "SimulateSteps: a plan for these gradients");
  Require(noise.slow.empty() || (noise.slow.begin()->first >= 0 && noise.slow.rbegin()->first < ranks),
          "SimulateSteps: slow ranks that there are");
  ScalingResult result;
  result.step_s = input.other_s + input.backward_s;
  const int steps = IsNoisy(noise) ? noise.steps : 1;
  std::map<size_t, int> last;
  for (int step = 0; step < steps; ++step) {
    const std::vector<RankPace> paces =
        IsNoisy(noise) ? DrawPaces(ranks, noise, static_cast<uint64_t>(step)) : std::vector<RankPace>(1);
    const StepTimes times = OneStep(input, plan, paces);
    result.compute_s += times.compute_s / steps;
    result.exposed_s += (times.end_s - times.compute_s) / steps;
    ++last[times.last_rank];
  }
  if (!IsNoisy(noise)) return result;
  const auto most = std::ranges::max_element(last, {}, [](const auto& entry) { return entry.second; });
  result.slowest_rank = static_cast<int>(most->first);
  result.slowest_part = static_cast<double>(most->second) / steps;
  return result;
}

}  // namespace moka
