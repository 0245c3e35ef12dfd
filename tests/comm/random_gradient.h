// Gradients as tests of compression draw them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace moka {

using Floats = std::vector<float>;
inline constexpr size_t kGradientCount = 24 * 45;

// Normal around 0.1, other values for each rank and step.
inline Floats Gradient(int rank, int64_t step, size_t count = kGradientCount) {
  RandomStream random(77, static_cast<uint64_t>(rank * 1000 + step));
  Floats values(count);
  for (float& v : values) v = static_cast<float>(random.Normal(0.1, 1));
  return values;
}

}  // namespace moka
