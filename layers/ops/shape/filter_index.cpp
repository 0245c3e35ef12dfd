// The indices of the items that a selector keeps: y begins with the indices of the selector's values that are not zero,
// in order; the rest is -1. A list of fixed length stands for Caffe's Filter, whose tops shrink with the data.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferFilterIndex(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("filter_index", in, 1, 1);
  CheckFloat("filter_index", "selector", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 1) {
    throw Error(ErrorKind::kConfig, StrCat("filter_index: selector must be [N], found ", x.ToString()));
  }
  return {PlainType(in[0].dtype, x)};
}

void FilterIndexReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, -1.0);
  size_t kept = 0;
  for (size_t i = 0; i < in[0].values.size(); ++i) {
    if (in[0].values[i] != 0) out[0].values[kept++] = static_cast<double>(i);
  }
}

std::vector<OpCase> FilterIndexCases() {
  return {{"some", {Float32({17})}, {}, -1, 1, {{0, 0, 1}}},
          {"all", {Float32({5})}, {}, 0.5, 1},
          {"none", {Float32({4})}, {}, 0, 0, {{0, 0, 0}}}};
}

}  // namespace

OpDef FilterIndexOp() {
  return {.name = "filter_index",
          .doc = "selector [N] -> y [N]: the indices of the values that are not zero, then -1.",
          .attributes = {},
          .infer = InferFilterIndex,
          .reference = FilterIndexReference,
          .precision = Precision::kKeep32,
          .cases = FilterIndexCases};
}

}  // namespace moka
