// The points that bilinear interpolation with aligned corners reads along one axis, and their weights.
#pragma once

#include <cstdint>
#include <vector>

#include "layers/ops/device_function.h"

namespace moka {

// value = (1 - weight) * x[low] + weight * x[high].
struct Tap {
  int64_t low = 0;
  int64_t high = 0;
  double weight = 0;
};

// The tap of point i of `out` points spread evenly over `in` points, first on first and last on last (a single one on
// the first). Integers keep the points that fall on a pixel exact. Requires: in and out at least 1.
MOKA_HOST_DEVICE inline Tap AlignedTap(int64_t i, int64_t in, int64_t out) {
  const int64_t steps = out > 1 ? out - 1 : 1;
  const int64_t low = i * (in - 1) / steps;
  const double weight = static_cast<double>(i * (in - 1) % steps) / static_cast<double>(steps);
  return {low, low + 1 < in ? low + 1 : in - 1, weight};
}
inline std::vector<Tap> AlignedTaps(int64_t in, int64_t out) {
  std::vector<Tap> taps(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) taps[static_cast<size_t>(i)] = AlignedTap(i, in, out);
  return taps;
}

}  // namespace moka
