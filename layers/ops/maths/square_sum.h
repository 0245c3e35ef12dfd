// The most tensors that a square_sum takes together: on a GPU their addresses travel with the launch.
#pragma once

#include <cstddef>

namespace moka {

inline constexpr size_t kMostSquared = 16;

}  // namespace moka
