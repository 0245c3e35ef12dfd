// Caffe's ArgMax: the top_k highest elements along an axis (highest first; among equals the larger index first, or the
// smaller one where first_of_equals is set), as indices, values, or both. Without an axis each item's elements form one
// list and y is [N,1,top_k] of indices, or [N,2,top_k] of indices then values if out_max_val; with an axis y is x's
// shape with top_k there.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

AxisSplit Lines(const Attributes& attributes, const Shape& x) {
  if (!attributes.Bool("has_axis")) return {x[0], x.Count(1, x.rank()), 1};
  return SplitAt(x, CanonicalAxis(attributes.Int("axis"), x, "argmax: axis"));
}

std::vector<TensorType> InferArgmax(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("argmax", in, 1, 1);
  CheckFloat("argmax", "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() < 1) throw Error(ErrorKind::kConfig, "argmax: x must have at least one axis, found a scalar");
  const int64_t top_k = attributes.Int("top_k");
  const int64_t size = Lines(attributes, x).size;
  if (top_k < 1 || top_k > size) {
    throw Error(ErrorKind::kConfig, StrCat("argmax: top_k is ", top_k, " but must be 1 to the ", size,
                                           " elements compared in x ", x.ToString()));
  }
  if (attributes.Bool("has_axis")) {
    return {PlainType(in[0].dtype, x.With(CanonicalAxis(attributes.Int("axis"), x, "argmax: axis"), top_k))};
  }
  Ints dims(static_cast<size_t>(std::max(x.rank(), 3)), 1);
  dims[0] = x[0];
  dims[1] = attributes.Bool("out_max_val") ? 2 : 1;
  dims[2] = top_k;
  return {PlainType(in[0].dtype, ShapeOf(dims))};
}

void ArgmaxReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const AxisSplit s = Lines(attributes, in[0].type.shape);
  const int64_t top_k = attributes.Int("top_k");
  const bool has_axis = attributes.Bool("has_axis");
  const bool values = attributes.Bool("out_max_val");
  const bool first_of_equals = attributes.Bool("first_of_equals");
  std::vector<double>& y = out[0].values;
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    std::vector<std::pair<double, int64_t>> items;
    for (int64_t c = 0; c < s.size; ++c) {
      const int64_t at = (line / s.inner * s.size + c) * s.inner + line % s.inner;
      items.emplace_back(in[0].values[static_cast<size_t>(at)], c);
    }
    std::ranges::sort(items, [&](const auto& a, const auto& b) {
      if (std::isnan(b.first)) return !std::isnan(a.first);  // NaNs last: a sort needs an order
      return first_of_equals && a.first == b.first ? a.second < b.second : a > b;
    });
    for (int64_t j = 0; j < top_k; ++j) {
      const auto [value, index] = items[static_cast<size_t>(j)];
      const auto as_double = static_cast<double>(index);
      if (has_axis) {
        y[static_cast<size_t>((line / s.inner * top_k + j) * s.inner + line % s.inner)] = values ? value : as_double;
        continue;
      }
      y[static_cast<size_t>((values ? 2 : 1) * line * top_k + j)] = as_double;
      if (values) y[static_cast<size_t>(2 * line * top_k + top_k + j)] = value;
    }
  }
}

std::vector<OpCase> ArgmaxCases() {
  const auto attributes = [](int64_t top_k, bool out_max_val, bool has_axis, int64_t axis) {
    return Attributes{{"top_k", top_k}, {"out_max_val", out_max_val}, {"has_axis", has_axis}, {"axis", axis}};
  };
  const auto first_of_equals = [](Attributes a) {
    a.Set("first_of_equals", true);
    return a;
  };
  const auto make = [](const char* name, const TensorType& x, Attributes a, bool ties = false) {
    OpCase c{.name = name, .inputs = {x}, .attributes = std::move(a), .ranges = {}, .min_gap = 1e-3};
    if (!ties) return c;
    c.ranges = {{0, 0, 2}};
    c.min_gap = 0;
    return c;
  };
  return {
      make("one", Float32({4, 9}), attributes(1, false, false, 0)),
      make("items", Float32({3, 2, 4, 5}), attributes(5, false, false, 0)),
      make("items_with_values", Float32({3, 2, 4, 5}), attributes(3, true, false, 0)),
      make("axis", Float32({2, 6, 3, 4}), attributes(2, false, true, 1)),
      make("axis_values", Float32({2, 6, 5}), attributes(2, true, true, -1)),
      make("ties", Float32({4, 8}), attributes(4, true, false, 0), true),
      make("first_of_ties", Float32({4, 8}), first_of_equals(attributes(4, true, false, 0)), true),
      make("first_of_ties_along_an_axis", Float32({2, 9, 5}), first_of_equals(attributes(1, false, true, 1)), true),
  };
}

}  // namespace

OpDef ArgmaxOp() {
  return {
      .name = "argmax",
      .doc = "x -> y: indices and/or values of the highest elements.",
      .attributes = {{"top_k", int64_t{1}, "how many are wanted"},
                     {"out_max_val", false, "whether values are given (with an axis: instead of indices)"},
                     {"has_axis", false, "whether axis is used; otherwise all but the first axis are one list"},
                     {"axis", int64_t{0}, "the axis compared along; negative counts from the end"},
                     {"first_of_equals", false, "whether of equals the smallest index comes first, not the largest"}},
      .infer = InferArgmax,
      .reference = ArgmaxReference,
      .precision = Precision::kKeep32,
      .cases = ArgmaxCases};
}

}  // namespace moka
