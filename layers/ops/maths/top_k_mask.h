// The order of top_k_mask's elements, for its reference and its kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "layers/ops/device_function.h"

namespace moka {

// Whether value a at index i comes before value b at index j: larger first, NaN before all, lower index among equals.
template <class T>
MOKA_HOST_DEVICE bool IsBefore(T a, int64_t i, T b, int64_t j) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && (!std::isnan(b) || i < j);
  return a != b ? a > b : i < j;
}

}  // namespace moka
