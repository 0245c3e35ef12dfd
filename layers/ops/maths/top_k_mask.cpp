// 1 at the k largest elements along an axis, else 0. Among equals the one with the lower index comes first; NaN counts
// as the largest, so that it shows in what is made of the chosen. The mask moves in steps only, so it has no gradient.
#include "layers/ops/maths/top_k_mask.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferTopKMask(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("top_k_mask", in, 1, 1);
  CheckFloat("top_k_mask", "x", in[0]);
  const Shape& x = in[0].shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), x, "top_k_mask: axis");
  const int64_t k = attributes.Int("k");
  if (k < 1 || k > x[axis]) {
    throw Error(ErrorKind::kConfig, StrCat("top_k_mask: k is ", k, " but must be 1 to the ", x[axis],
                                           " elements along axis ", axis, " of x ", x.ToString()));
  }
  return {PlainType(in[0].dtype, x)};
}

void TopKMaskReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const AxisSplit s = SplitAt(x, CanonicalAxis(attributes.Int("axis"), x, "axis"));
  const int64_t k = attributes.Int("k");
  std::vector<int64_t> order(static_cast<size_t>(s.size));
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const auto at = [&](int64_t c) {
      return static_cast<size_t>((line / s.inner * s.size + c) * s.inner + line % s.inner);
    };
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order,
                      [&](int64_t a, int64_t b) { return IsBefore(in[0].values[at(a)], a, in[0].values[at(b)], b); });
    for (int64_t i = 0; i < s.size; ++i) out[0].values[at(order[static_cast<size_t>(i)])] = i < k ? 1 : 0;
  }
}

std::vector<OpCase> TopKMaskCases() {
  const auto make = [](const char* name, const TensorType& x, int64_t axis, int64_t k, bool ties = false) {
    OpCase c{.name = name, .inputs = {x}, .attributes = {{"axis", axis}, {"k", k}}, .min_gap = 1e-3};
    if (!ties) return c;
    c.ranges = {{0, 0, 2}};
    c.min_gap = 0;
    return c;
  };
  return {make("middle", Float32({2, 6, 5}), 1, 2),     make("last", Float32({4, 9}), -1, 3),
          make("first", Float32({7, 3}), 0, 1),         make("all", Float32({3, 4}), 1, 4),
          make("ties", Float32({3, 8, 2}), 1, 4, true), make("long_lines", Float32({2, 300}), 1, 17)};
}

}  // namespace

OpDef TopKMaskOp() {
  return {.name = "top_k_mask",
          .doc = "x -> mask like x: 1 at the k largest elements along an axis, else 0.",
          .attributes = {{"axis", {}, "the axis compared along; negative counts from the end"},
                         {"k", {}, "how many elements of a line are marked"}},
          .infer = InferTopKMask,
          .reference = TopKMaskReference,
          .precision = Precision::kKeep32,
          .cases = TopKMaskCases};
}

}  // namespace moka
