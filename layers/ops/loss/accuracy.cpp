// Caffe's Accuracy: the share of counted labels whose class has fewer than top_k classes with an equal or higher value
// (so ties count against it, and a NaN never counts as right); per_class is the share of each class, 0 where it is
// absent.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferAccuracy(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("accuracy", in, 2, 2);
  CheckFloat("accuracy", "x", in[0]);
  CheckLabels("accuracy", attributes, in[0].shape, in[1].shape);
  const int64_t classes = in[0].shape[CanonicalAxis(attributes.Int("axis"), in[0].shape, "accuracy: axis")];
  const int64_t top_k = attributes.Int("top_k");
  if (top_k < 1 || top_k > classes) {
    throw Error(ErrorKind::kConfig, StrCat("accuracy: top_k is ", top_k, " but must be 1 to the ", classes,
                                           " classes of ", in[0].shape.ToString()));
  }
  const DType dtype = StatisticsType(in[0].dtype);
  return {PlainType(dtype, Shape{}), PlainType(dtype, Shape{classes})};
}

void AccuracyReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  double right = 0;
  double valid = 0;
  std::vector<double> right_of(static_cast<size_t>(s.size), 0.0);
  std::vector<double> valid_of(static_cast<size_t>(s.size), 0.0);
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const auto value = [&](int64_t c) {
      return in[0].values[static_cast<size_t>((line / s.inner * s.size + c) * s.inner + line % s.inner)];
    };
    const int64_t label = ReadLabel(attributes, in[1].values[static_cast<size_t>(line)], s.size);
    if (label < 0) continue;
    int64_t not_below = 0;  // the label's own class among them
    for (int64_t c = 0; c < s.size; ++c) not_below += value(c) < value(label) ? 0 : 1;
    const double hit = not_below <= attributes.Int("top_k") ? 1 : 0;
    right += hit;
    right_of[static_cast<size_t>(label)] += hit;
    valid += 1;
    valid_of[static_cast<size_t>(label)] += 1;
  }
  out[0].values[0] = valid == 0 ? 0 : right / valid;
  for (size_t c = 0; c < right_of.size(); ++c) out[1].values[c] = valid_of[c] == 0 ? 0 : right_of[c] / valid_of[c];
}

std::vector<OpCase> AccuracyCases() {
  const auto attributes = [](int64_t axis, int64_t top_k, bool has_ignore = false, int64_t ignore_label = 0) {
    return Attributes{{"axis", axis}, {"top_k", top_k}, {"has_ignore", has_ignore}, {"ignore_label", ignore_label}};
  };
  return {
      {.name = "top_1",
       .inputs = {Float32({20, 4}), Float32({20})},
       .attributes = attributes(1, 1),
       .ranges = {{1, 0, 3}},
       .min_gap = 1e-3},
      {.name = "top_5",
       .inputs = {Float32({20, 12}), Float32({20})},
       .attributes = attributes(1, 5),
       .ranges = {{1, 0, 11}},
       .min_gap = 1e-3},
      {.name = "ties",
       .inputs = {Float32({30, 5}), Float32({30})},
       .attributes = attributes(1, 2),
       .ranges = {{0, 0, 2}, {1, 0, 4}}},
      {.name = "ignore",
       .inputs = {Float32({20, 4}), Float32({20})},
       .attributes = attributes(1, 1, true, 1),
       .ranges = {{1, 0, 3}},
       .min_gap = 1e-3},
      {.name = "pixels",
       .inputs = {Float32({2, 5, 3, 4}), Float32({2, 3, 4})},
       .attributes = attributes(1, 2, true, 255),
       .ranges = {{1, 0, 4}},
       .min_gap = 1e-3},
      {.name = "absent_classes",
       .inputs = {Float32({3, 7}), Float32({3})},
       .attributes = attributes(-1, 1),
       .ranges = {{1, 0, 1}},
       .min_gap = 1e-3},
      {.name = "all_ignored",
       .inputs = {Float32({3, 2}), Float32({3})},
       .attributes = attributes(1, 1, true, 1),
       .ranges = {{1, 1, 1}},
       .min_gap = 1e-3},
  };
}

}  // namespace

OpDef AccuracyOp() {
  std::vector<AttributeSpec> specs = LabelAttributes();
  specs.push_back({"top_k", int64_t{1}, "a label is right if its class is among this many highest"});
  return {.name = "accuracy",
          .doc = "(x, label) -> accuracy (scalar), per_class [classes].",
          .attributes = std::move(specs),
          .infer = InferAccuracy,
          .reference = AccuracyReference,
          .precision = Precision::kKeep32,
          .cases = AccuracyCases};
}

}  // namespace moka
