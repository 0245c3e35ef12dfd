// Softmax with cross entropy, one loss a label: loss = -sum over classes of t log max(p, FLT_MIN), p = softmax(x),
// t = 1 - s + s/C at the label and s/C elsewhere for a label smoothing s (Szegedy et al., arXiv 1512.00567, 7). With
// it losses can be weighted one by one. dx = (p - t) * dloss, 0 at ignored labels; the clip has no part in it.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/loss/cross_entropy.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferSoftmaxLosses(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("softmax_losses", in, 2, 2);
  CheckFloat("softmax_losses", "x", in[0]);
  CheckLabels("softmax_losses", attributes, in[0].shape, in[1].shape);
  const TensorType losses = PlainType(StatisticsType(in[0].dtype), in[1].shape);
  return {losses, losses, PlainType(in[0].dtype, in[0].shape)};
}

// The part of every class and the label's further part.
double Share(const Attributes& attributes, int64_t classes) {
  return attributes.Float("smoothing") / static_cast<double>(classes);
}

void SoftmaxLossesReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  const double smoothing = attributes.Float("smoothing");
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const int64_t first = line / s.inner * s.size * s.inner + line % s.inner;
    SoftmaxLine(in[0].values, static_cast<size_t>(first), static_cast<size_t>(s.inner), static_cast<size_t>(s.size),
                out[2].values);
    const auto i = static_cast<size_t>(line);
    const int64_t label = ReadLabel(attributes, in[1].values[i], s.size);
    out[0].values[i] = 0;
    out[1].values[i] = label < 0 ? 0 : 1;
    if (label < 0) continue;
    const auto cost = [&](int64_t c) {
      return -std::log(std::max(out[2].values[static_cast<size_t>(first + c * s.inner)], double{FLT_MIN}));
    };
    out[0].values[i] = (1 - smoothing) * cost(label);
    if (smoothing == 0) continue;
    for (int64_t c = 0; c < s.size; ++c) out[0].values[i] += Share(attributes, s.size) * cost(c);
  }
}

void SoftmaxLossesGradient(GradientContext& c) { SetCrossEntropyDx(c, "softmax_losses_backward"); }

std::vector<TensorType> InferSoftmaxLossesBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("softmax_losses_backward", in, 3, 3);
  CheckFloat("softmax_losses_backward", "probability", in[0]);
  CheckLabels("softmax_losses_backward", attributes, in[0].shape, in[1].shape);
  CheckShape("softmax_losses_backward", "dlosses", in[2].shape, in[1].shape, "the label's shape");
  return {PlainType(in[0].dtype, in[0].shape)};
}

void SoftmaxLossesReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in,
                                    std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), shape, "axis");
  const AxisSplit s = SplitAt(shape, axis);
  VisitElements(shape, [&](const Index& index, int64_t offset) {
    const auto line = static_cast<size_t>(offset / (s.size * s.inner) * s.inner + offset % s.inner);
    const int64_t label = ReadLabel(attributes, in[1].values[line], s.size);
    const double hit = index[static_cast<size_t>(axis)] == label ? 1 - attributes.Float("smoothing") : 0;
    const auto i = static_cast<size_t>(offset);
    out[0].values[i] = label < 0 ? 0 : (in[0].values[i] - hit - Share(attributes, s.size)) * in[2].values[line];
  });
}

std::vector<OpCase> MakeSoftmaxLossesCases(bool backward) {
  const std::vector<std::pair<CrossEntropyExample, double>> examples = {
      {{"classes", {5, 10}, {5}, 1, 0, 9, false, 0}, 0},
      {{"smoothed", {5, 10}, {5, 1, 1, 1}, 1, 0, 9, false, 0}, 0.1},
      {{"pixels", {2, 5, 3, 4}, {2, 1, 3, 4}, 1, 0, 4, true, 4}, 0},
      {{"pixels_smoothed", {2, 3, 2, 5}, {2, 2, 5}, 1, -1, 2, true, -1}, 0.3},
      {{"last_axis", {2, 3, 7}, {2, 3}, -1, 0, 6, false, 0}, 0.5},
      {{"one_class", {4, 1}, {4}, 1, 0, 0, false, 0}, 0.2},
  };
  std::vector<OpCase> cases;
  for (const auto& [example, smoothing] : examples) {
    cases.push_back(CrossEntropyCase(example, backward ? std::optional(example.label) : std::nullopt));
    cases.back().attributes.Set("smoothing", smoothing);
  }
  return cases;
}
std::vector<OpCase> SoftmaxLossesCases() { return MakeSoftmaxLossesCases(false); }
std::vector<OpCase> SoftmaxLossesBackwardCases() { return MakeSoftmaxLossesCases(true); }

std::vector<AttributeSpec> SoftmaxLossesSpecs() {
  std::vector<AttributeSpec> specs = LabelAttributes();
  specs.push_back({"smoothing", 0.0, "part of each target that all classes share"});
  return specs;
}

}  // namespace

OpDef SoftmaxLossesOp() {
  return {.name = "softmax_losses",
          .doc = "(x, label) -> losses, valid (1, or 0 where ignored) like label, probability like x.",
          .attributes = SoftmaxLossesSpecs(),
          .infer = InferSoftmaxLosses,
          .reference = SoftmaxLossesReference,
          .gradient = SoftmaxLossesGradient,
          .precision = Precision::kKeep32,
          .cases = SoftmaxLossesCases};
}

OpDef SoftmaxLossesBackwardOp() {
  return {.name = "softmax_losses_backward",
          .doc = "(probability, label, dlosses like label) -> dx like probability.",
          .attributes = SoftmaxLossesSpecs(),
          .infer = InferSoftmaxLossesBackward,
          .reference = SoftmaxLossesReferenceBackward,
          .may_overwrite = [](const Attributes&, int input, int) { return input == 0; },
          .precision = Precision::kKeep32,
          .cases = SoftmaxLossesBackwardCases};
}

}  // namespace moka
