// When a test meets the target of a training.
#pragma once

#include <cfloat>
#include <cmath>
#include <string_view>

namespace moka {

// Losses and errors fall, everything else rises.
inline bool FallsToItsTarget(std::string_view metric) {
  return metric.find("loss") != std::string_view::npos || metric.find("error") != std::string_view::npos;
}

// A solver holds its target in single precision, and batches give what a test averages in it: what is nearer than their
// rounding meets the target, so that 9,940 right of 10,000 meet 0.994. NaN meets nothing.
inline bool MeetsTarget(double measured, double target, bool falls) {
  const double rounding = 4.0 * double{FLT_EPSILON} * std::abs(target);
  return falls ? measured <= target + rounding : measured >= target - rounding;
}

}  // namespace moka
