// Where the elements of a tensor without blocks stand, in elements: plain, channels last, any other order of its axes.
#pragma once

#include <cstdint>

#include "core/error.h"
#include "core/types.h"

namespace moka::cuda {

struct Strides {
  int64_t of[Shape::kMaxRank] = {};
  __host__ __device__ int64_t operator[](int axis) const { return of[axis]; }
};

// Requires: no blocks.
inline Strides StridesOf(const TensorType& type) {
  Require(type.layout.block_count == 0, "StridesOf: a layout without blocks");
  Strides strides;
  int64_t step = 1;
  for (int place = type.shape.rank() - 1; place >= 0; --place) {
    const int axis = type.layout.is_plain() ? place : int{type.layout.order[static_cast<size_t>(place)]};
    strides.of[axis] = step;
    step *= type.shape[axis];
  }
  return strides;
}

}  // namespace moka::cuda
