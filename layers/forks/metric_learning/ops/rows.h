// Rows of a matrix as points.
#pragma once

#include <cstdint>

#include "graph/op.h"

namespace moka {

// The squared Euclidean distance of rows a and b of x [N,D].
inline double SquaredDistance(const RefTensor& x, int64_t a, int64_t b) {
  const int64_t length = x.type.shape[1];
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    const double d = x.values[static_cast<size_t>(a * length + i)] - x.values[static_cast<size_t>(b * length + i)];
    sum += d * d;
  }
  return sum;
}

}  // namespace moka
