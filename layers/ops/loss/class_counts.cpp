// The counts that segmentation's metrics are made of, from scores and labels: for each class the pixels that are right
// (hits), that have the label, and that are predicted so. The prediction is the class of the largest score, of equal
// ones the last (DeepLab's SegAccuracy sorts pairs of score and class). Pixels with an ignored label count nowhere.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferClassCounts(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("class_counts", in, 2, 2);
  CheckFloat("class_counts", "x", in[0]);
  CheckLabels("class_counts", attributes, in[0].shape, in[1].shape);
  const int axis = CanonicalAxis(attributes.Int("axis"), in[0].shape, "class_counts: axis");
  return {PlainType(DType::kFloat32, Shape{3, in[0].shape[axis]})};
}

void ClassCountsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  const Ints& ignored = attributes.Get<Ints>("ignore");
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const double value = in[1].values[static_cast<size_t>(line)];
    const int64_t label = ReadLabel(false, 0, value, s.size);
    if (label < 0 || std::ranges::find(ignored, label) != ignored.end()) continue;
    int64_t best = 0;
    const auto score = [&](int64_t c) {
      return in[0].values[static_cast<size_t>((line / s.inner * s.size + c) * s.inner + line % s.inner)];
    };
    for (int64_t c = 1; c < s.size; ++c) best = score(c) >= score(best) ? c : best;
    if (best == label) out[0].values[static_cast<size_t>(label)] += 1;
    out[0].values[static_cast<size_t>(s.size + label)] += 1;
    out[0].values[static_cast<size_t>(2 * s.size + best)] += 1;
  }
}

std::vector<OpCase> ClassCountsCases() {
  return {{.name = "pixels",
           .inputs = {Float32({2, 5, 3, 4}), Float32({2, 1, 3, 4})},
           .attributes = {{"axis", int64_t{1}}, {"ignore", Ints{}}},
           .ranges = {{1, 0, 4}}},
          {.name = "ignored",
           .inputs = {Float32({1, 3, 4, 4}), Float32({1, 4, 4})},
           .attributes = {{"axis", int64_t{1}}, {"ignore", Ints{-1, 0}}},
           .ranges = {{1, -1, 2}}},
          {.name = "ties",
           .inputs = {Float32({4, 4}), Float32({4})},
           .attributes = {{"axis", int64_t{1}}, {"ignore", Ints{255}}},
           .ranges = {{0, 0, 1}, {1, 0, 3}}}};
}

}  // namespace

OpDef ClassCountsOp() {
  return {.name = "class_counts",
          .doc = "(x, label) -> [3,C] counts: pixels that are right, have the label, are predicted so, for each class.",
          .attributes = {{"axis", int64_t{1}, "the classes' axis of x; negative counts from the end"},
                         {"ignore", Ints{}, "labels that count nowhere"}},
          .infer = InferClassCounts,
          .reference = ClassCountsReference,
          .precision = Precision::kKeep32,
          .cases = ClassCountsCases};
}

}  // namespace moka
