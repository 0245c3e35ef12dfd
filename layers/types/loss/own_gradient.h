// Losses whose gradient in Caffe is not the derivative of their value (clipped logarithms, centres that move by a rule
// of their own), and what their checks share.
#pragma once

#include <vector>

#include "layers/net/layer.h"

namespace moka {

struct OwnGradient {
  ValueId x;
  ValueId dx;  // x's shape
};

// The scalar `value`, differentiated as if d value / d x were dx for each pair and nothing else had a gradient: adds
// sum of dx * (x - x), where only the first x is seen by the derivative.
ValueId WithGradients(const LayerBuilder& l, ValueId value, const std::vector<OwnGradient>& gradients);

// The value, which no gradient passes.
ValueId Constant(const LayerBuilder& l, ValueId x);

// The sum of an expression over everything; a scalar.
ValueId SumOf(const LayerBuilder& l, const std::string& expr, const std::vector<ValueId>& inputs);
ValueId SumOf(const LayerBuilder& l, const Term& term, std::vector<ValueId> first = {});

// 0, 1, ..: all axes of a rank.
Ints AllAxes(int rank);

// Bottom i must have the batch and the count of bottom 0; gives it with bottom 0's shape.
ValueId Like0(const LayerBuilder& l, int i);

// Bottom i must be [N,C] with bottom 0's N and C and all later dimensions 1; gives it as [N,C].
ValueId Vectors(const LayerBuilder& l, int i);

// Bottom 0 as [N, D], one row an item, and the mask [N, D] with 1 at bottom 1's labels.
struct LabelledRows {
  ValueId rows;
  ValueId mask;
  int64_t count;  // N
};
LabelledRows RowsWithLabels(const LayerBuilder& l);

}  // namespace moka
