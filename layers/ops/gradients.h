// Pieces that several gradient rules share.
#pragma once

#include <initializer_list>
#include <string_view>

#include "graph/op.h"

namespace moka {

// A copy of some attributes.
inline Attributes Selected(const Attributes& attributes, std::initializer_list<std::string_view> names) {
  Attributes selected;
  for (const std::string_view name : names) selected.Set(std::string(name), attributes.values().find(name)->second);
  return selected;
}

// dy where y > 0, else 0: the gradient through a fused ReLU.
inline ValueId ReluMasked(const GraphBuilder& b, ValueId dy, ValueId y) {
  return b.Pointwise("select(gt(x1,0),x0,0)", {dy, y});
}

// [dy.dim(axis)]: dy summed over every other axis (a bias's gradient).
inline ValueId SumAllBut(const GraphBuilder& b, ValueId dy, int axis) {
  Ints axes;
  for (int i = 0; i < b.shape(dy).rank(); ++i) {
    if (i != axis) axes.push_back(i);
  }
  const int64_t dim = b.shape(dy)[axis];
  return b.Reshape(b.ReduceSum(dy, std::move(axes)), Shape{dim});
}

}  // namespace moka
