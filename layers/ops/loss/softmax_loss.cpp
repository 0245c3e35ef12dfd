// loss_sum = -sum log max(p[label], FLT_MIN) over labels that are not ignored, p = softmax(x) along an axis; so one
// label costs at most 87.3365 (as in Caffe). valid_count is how many labels counted. dx = (p - onehot(label)) * dloss
// at those, else 0; the clip has no part in the gradient.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "graph/op.h"
#include "layers/ops/checks.h"
#include "layers/ops/loss/cross_entropy.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/recurrent/first_results.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferSoftmaxLoss(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("softmax_loss", in, 2, 2);
  CheckFloat("softmax_loss", "x", in[0]);
  CheckLabels("softmax_loss", attributes, in[0].shape, in[1].shape);
  const TensorType scalar = PlainType(StatisticsType(in[0].dtype), Shape{});
  return {scalar, scalar, PlainType(in[0].dtype, in[0].shape)};
}

void SoftmaxLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  double loss = 0;
  int64_t valid = 0;
  for (int64_t line = 0; line < s.outer * s.inner; ++line) {
    const int64_t first = line / s.inner * s.size * s.inner + line % s.inner;
    SoftmaxLine(in[0].values, static_cast<size_t>(first), static_cast<size_t>(s.inner), static_cast<size_t>(s.size),
                out[2].values);
    const int64_t label = ReadLabel(attributes, in[1].values[static_cast<size_t>(line)], s.size);
    if (label < 0) continue;
    loss -= std::log(std::max(out[2].values[static_cast<size_t>(first + label * s.inner)], double{FLT_MIN}));
    ++valid;
  }
  out[0].values[0] = loss;
  out[1].values[0] = static_cast<double>(valid);
}

constexpr size_t kSoftmaxLossResults = 2;  // that are not saved for the gradient

std::vector<TensorType> InferSoftmaxLossForward(const Attributes& attributes, std::span<const TensorType> in) {
  return FirstTypes(InferSoftmaxLoss(attributes, in), kSoftmaxLossResults);
}

void SoftmaxLossReferenceForward(const Attributes& attributes, std::span<const RefTensor> in,
                                 std::span<RefTensor> out) {
  FirstResults(InferSoftmaxLoss, SoftmaxLossReference, attributes, in, out);
}

void SoftmaxLossGradient(GradientContext& c) { SetCrossEntropyDx(c, "softmax_loss_backward"); }

std::vector<TensorType> InferSoftmaxLossBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("softmax_loss_backward", in, 3, 3);
  CheckFloat("softmax_loss_backward", "probability", in[0]);
  CheckLabels("softmax_loss_backward", attributes, in[0].shape, in[1].shape);
  CheckShape("softmax_loss_backward", "dloss", in[2].shape, Shape{}, "a scalar");
  return {PlainType(in[0].dtype, in[0].shape)};
}

void SoftmaxLossReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in,
                                  std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), shape, "axis");
  const AxisSplit s = SplitAt(shape, axis);
  VisitElements(shape, [&](const Index& index, int64_t offset) {
    const int64_t line = offset / (s.size * s.inner) * s.inner + offset % s.inner;
    const int64_t label = ReadLabel(attributes, in[1].values[static_cast<size_t>(line)], s.size);
    const double hit = index[static_cast<size_t>(axis)] == label ? 1 : 0;
    const auto i = static_cast<size_t>(offset);
    out[0].values[i] = label < 0 ? 0 : (in[0].values[i] - hit) * in[2].values[0];
  });
}

std::vector<OpCase> MakeSoftmaxLossCases(bool backward) {
  const std::vector<CrossEntropyExample> examples = {
      {"classes", {5, 10}, {5}, 1, 0, 9, false, 0},
      {"caffe_labels", {5, 10}, {5, 1, 1, 1}, 1, 0, 9, false, 0},
      {"ignore_inside", {16, 4}, {16}, 1, 0, 3, true, 2},
      {"ignore_outside", {9, 3}, {9}, 1, -1, 2, true, -1},
      {"pixels", {2, 5, 3, 4}, {2, 1, 3, 4}, 1, 0, 4, true, 4},
      {"all_ignored", {2, 4}, {2}, 1, 3, 3, true, 3},
      {"last_axis", {2, 3, 7}, {2, 3}, -1, 0, 6, false, 0},
      {"one_class", {4, 1}, {4}, 1, 0, 0, false, 0},
      {"many_classes", {3, 1000}, {3}, 1, 0, 999, false, 0},
  };
  std::vector<OpCase> cases;
  const std::optional<Shape> dloss = backward ? std::optional(Shape{}) : std::nullopt;
  for (const CrossEntropyExample& e : examples) cases.push_back(CrossEntropyCase(e, dloss));
  return cases;
}

std::vector<OpCase> SoftmaxLossCases() { return MakeSoftmaxLossCases(false); }
std::vector<OpCase> SoftmaxLossBackwardCases() { return MakeSoftmaxLossCases(true); }

}  // namespace

OpDef SoftmaxLossOp() {
  return {.name = "softmax_loss",
          .doc =
              "(x, label) -> loss_sum, valid_count (scalars), probability like x: cross entropy of softmax(x) with "
              "integer labels, summed.",
          .attributes = LabelAttributes(),
          .infer = InferSoftmaxLoss,
          .reference = SoftmaxLossReference,
          .gradient = SoftmaxLossGradient,
          .precision = Precision::kKeep32,
          .cases = SoftmaxLossCases};
}

OpDef SoftmaxLossForwardOp() {
  return {.name = "softmax_loss_forward",
          .doc = "(x, label) -> loss_sum, valid_count (scalars): softmax_loss without the probability.",
          .attributes = LabelAttributes(),
          .infer = InferSoftmaxLossForward,
          .reference = SoftmaxLossReferenceForward,
          .precision = Precision::kKeep32,
          .cases = SoftmaxLossCases};
}

OpDef SoftmaxLossBackwardOp() {
  return {.name = "softmax_loss_backward",
          .doc = "(probability, label, dloss scalar) -> dx like probability.",
          .attributes = LabelAttributes(),
          .infer = InferSoftmaxLossBackward,
          .reference = SoftmaxLossReferenceBackward,
          .may_overwrite = [](const Attributes&, int input, int) { return input == 0; },
          .precision = Precision::kKeep32,
          .cases = SoftmaxLossBackwardCases};
}

}  // namespace moka
