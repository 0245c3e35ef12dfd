// One at each line's label, else zero: what losses that single out the labelled class are composed with. A label that
// is no class leaves its line zero (kernels report it unless it is the ignored one).
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferLabelMask(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("label_mask", in, 1, 1);
  CheckFloat("label_mask", "label", in[0]);
  const Shape y = ShapeAttribute("label_mask", attributes, "shape");
  CheckLabels("label_mask", attributes, y, in[0].shape);
  return {PlainType(in[0].dtype, y)};
}

void LabelMaskReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& y = out[0].type.shape;
  const AxisSplit s = SplitAt(y, CanonicalAxis(attributes.Int("axis"), y, "axis"));
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const int64_t label = ReadLabel(attributes, in[0].values[static_cast<size_t>(line)], s.size);
    if (label < 0) continue;
    out[0].values[static_cast<size_t>((line / s.inner * s.size + label) * s.inner + line % s.inner)] = 1;
  }
}

std::vector<OpCase> LabelMaskCases() {
  const auto to = [](Ints shape, int64_t axis) { return Attributes{{"shape", std::move(shape)}, {"axis", axis}}; };
  Attributes ignoring = to({2, 4, 3, 2}, 1);
  ignoring.Set("has_ignore", true);
  ignoring.Set("ignore_label", int64_t{4});
  return {{"classes", {Float32({6})}, to({6, 5}, 1), 0, 4, {{0, 0, 4}}},
          {"spatial", {Float32({2, 3, 2})}, to({2, 4, 3, 2}, 1), 0, 3, {{0, 0, 3}}},
          {"first_axis", {Float32({7})}, to({3, 7}, 0), 0, 2, {{0, 0, 2}}},
          {"ignored", {Float32({2, 1, 3, 2})}, ignoring, 0, 4, {{0, 0, 4}}}};
}

}  // namespace

OpDef LabelMaskOp() {
  return {.name = "label_mask",
          .doc = "label, one a line -> y: 1 where the class along the axis is the line's label, otherwise 0.",
          .attributes = JoinSpecs({{ShapeSpec("shape", "the shape of y")}, LabelAttributes()}),
          .infer = InferLabelMask,
          .reference = LabelMaskReference,
          .precision = Precision::kKeep32,
          .cases = LabelMaskCases};
}

}  // namespace moka
