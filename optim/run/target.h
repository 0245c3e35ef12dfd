// When a test meets the target of a training.
#pragma once

#include <string_view>

namespace moka {

// Losses and errors fall, everything else rises.
inline bool FallsToItsTarget(std::string_view metric) {
  return metric.find("loss") != std::string_view::npos || metric.find("error") != std::string_view::npos;
}

// Both are taken in single precision, in which a solver holds its target and batches give what is averaged: 9,940 of
// 10,000 meet 0.994. NaN meets nothing.
inline bool MeetsTarget(std::string_view metric, double measured, double target) {
  const auto value = static_cast<float>(measured);
  const auto wanted = static_cast<float>(target);
  return FallsToItsTarget(metric) ? value <= wanted : value >= wanted;
}

}  // namespace moka
