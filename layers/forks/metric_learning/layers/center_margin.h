// The part that the losses of features to centres with a margin share (ydwen/centerloss): the fraction p of the way to
// its centre that each feature is drawn. For distances p = max(0, (|d| - margin) / |d|) with d = x - c; for angles p is
// such that the cosine of x + p (c - x) and c is the margin.
#pragma once

#include <string>
#include <string_view>

#include "layers/net/layer.h"

namespace moka {

struct MarginRows {
  ValueId x;       // [M,D]
  ValueId center;  // [M,D], of each row's class
};

// p of each row, [M,1], without gradient. `guard` is added under the root of the angles' quadratic equation; without it
// a negative discriminant counts as 0.
ValueId DrawnPart(const LayerBuilder& l, const MarginRows& rows, bool is_cosine, double margin, double guard);

// How many items of the batch have the class of each row, [M,1]; label holds count = M numbers.
ValueId PeersOf(const LayerBuilder& l, ValueId label, int64_t count);

// The weight with which the first top enters the net's loss; 1 where that is 0.
double LossWeightOf(const LayerBuilder& l);

}  // namespace moka
