// Training steps of many devices in virtual time: the production planner's buckets and the production schedules' costs,
// with what disturbs real ranks.
//
// All ranks begin a step together (the step before ended with a collective). Rank r computes with the factor f and the
// stall s drawn for it: it has a gradient at s + f * (forward + ready). A bucket's all-reduce begins when the last rank
// has its gradients and the bucket before has ended. Not modelled: computing that slows down while the network is busy,
// ranks that leave a collective at different times, input that is late (say so as stalls).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/exchange/fusion_plan.h"

namespace moka {

struct NoiseOptions {
  double jitter = 0;             // sigma of each rank's lognormal factor of the step (mean 1), drawn anew each step
  double stall_probability = 0;  // of a rank in a step
  double stall_s = 0;
  std::map<int, double> slow = {};  // factors of ranks that are always slower
  int steps = 100;                  // averaged
  uint64_t seed = 1;
};

// Means over the steps.
struct ScalingResult {
  double step_s = 0;        // without communication and noise: what efficiency compares with
  double compute_s = 0;     // until the slowest rank has computed
  double exposed_s = 0;     // communication after that
  int slowest_rank = -1;    // the rank that is last most often; -1 without noise
  double slowest_part = 0;  // of the steps

  double efficiency() const { return step_s / (compute_s + exposed_s); }
};

// Requires: the plan is for this input; ranks >= 1, steps >= 1.
ScalingResult SimulateSteps(const FusionInput& input, const FusionPlan& plan, int ranks, const NoiseOptions& noise);

}  // namespace moka
