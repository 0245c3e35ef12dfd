// Mean and biased variance of each channel over all other axes, as batch normalisation takes them, in two passes.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/op.h"
#include "layers/ops/visit.h"

namespace moka {

// Computes mean and variance [C] of x [N,C,..]. Requires: x has elements.
inline void BatchStatistics(const RefTensor& x, std::vector<double>& mean, std::vector<double>& variance) {
  const Shape& shape = x.type.shape;
  const double count = static_cast<double>(shape.Count()) / static_cast<double>(shape[1]);
  std::ranges::fill(mean, 0.0);
  std::ranges::fill(variance, 0.0);
  const auto each = [&](auto&& f) {
    VisitElements(shape, [&](const Index& index, int64_t i) {
      f(x.values[static_cast<size_t>(i)], static_cast<size_t>(index[1]));
    });
  };
  each([&](double value, size_t c) { mean[c] += value / count; });
  each([&](double value, size_t c) { variance[c] += (value - mean[c]) * (value - mean[c]) / count; });
}

}  // namespace moka
