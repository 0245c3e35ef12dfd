// y_c = exp(x_c - max) / sum_k exp(x_k - max) along one axis; dx_c = y_c * (dy_c - sum_k y_k dy_k).
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/loss/cross_entropy.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

void CheckSoftmax(std::string_view op, const Attributes& attributes, const TensorType& x) {
  CheckFloat(op, "x", x);
  const int axis = CanonicalAxis(attributes.Int("axis"), x.shape, StrCat(op, ": axis"));
  if (x.shape[axis] > 0) return;
  throw Error(ErrorKind::kConfig, StrCat(op, ": axis ", axis, " of ", x.shape.ToString(), " has no elements"));
}

std::vector<TensorType> InferSoftmax(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("softmax", in, 1, 1);
  CheckSoftmax("softmax", attributes, in[0]);
  return {PlainType(in[0].dtype, in[0].shape)};
}

std::vector<TensorType> InferSoftmaxBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("softmax_backward", in, 2, 2);
  CheckSoftmax("softmax_backward", attributes, in[0]);
  CheckShape("softmax_backward", "dy", in[1].shape, in[0].shape, "y's shape");
  CheckSameDType("softmax_backward", "y", in[0], "dy", in[1]);
  return {PlainType(in[0].dtype, in[0].shape)};
}

// Calls f(offset of the first element) for each line along the axis; elements are `inner` apart.
template <class F>
void VisitLines(const AxisSplit& s, F&& f) {
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i) f(o * s.size * s.inner + i);
  }
}

void SoftmaxReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  VisitLines(s, [&](int64_t first) {
    SoftmaxLine(in[0].values, static_cast<size_t>(first), static_cast<size_t>(s.inner), static_cast<size_t>(s.size),
                out[0].values);
  });
}

void SoftmaxReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const AxisSplit s = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  VisitLines(s, [&](int64_t first) {
    const auto at = [&](int64_t c) { return static_cast<size_t>(first + c * s.inner); };
    double dot = 0;
    for (int64_t c = 0; c < s.size; ++c) dot += in[0].values[at(c)] * in[1].values[at(c)];
    for (int64_t c = 0; c < s.size; ++c) out[0].values[at(c)] = in[0].values[at(c)] * (in[1].values[at(c)] - dot);
  });
}

void SoftmaxGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().Add1("softmax_backward", {c.y(0), c.dy(0)}, c.attributes()));
}

std::vector<OpCase> MakeSoftmaxCases(bool backward) {
  std::vector<OpCase> cases = {
      {"classes", {Float32({4, 10})}, {{"axis", int64_t{1}}}},
      {"channels", {Float32({2, 19, 3, 4})}, {{"axis", int64_t{1}}}},
      {"last_axis", {Float32({2, 3, 5})}, {{"axis", int64_t{-1}}}},
      {"first_axis", {Float32({4, 3})}, {{"axis", int64_t{0}}}},
      {"one_class", {Float32({3, 1})}, {{"axis", int64_t{1}}}},
  };
  for (OpCase& c : cases) {
    if (backward) c.inputs.push_back(c.inputs[0]);
    c.low = backward ? -1 : -4;
    c.high = backward ? 1 : 4;
  }
  return cases;
}

std::vector<OpCase> SoftmaxCases() { return MakeSoftmaxCases(false); }
std::vector<OpCase> SoftmaxBackwardCases() { return MakeSoftmaxCases(true); }

std::vector<AttributeSpec> SoftmaxSpecs() {
  return {{"axis", int64_t{1}, "the classes' axis; negative counts from the end"}};
}

}  // namespace

OpDef SoftmaxOp() {
  return {.name = "softmax",
          .doc = "x -> y like x: exponentials normalised to sum 1 along an axis.",
          .attributes = SoftmaxSpecs(),
          .infer = InferSoftmax,
          .reference = SoftmaxReference,
          .gradient = SoftmaxGradient,
          .may_overwrite = [](const Attributes&, int, int) { return true; },
          .precision = Precision::kKeep32,
          .cases = SoftmaxCases};
}

OpDef SoftmaxBackwardOp() {
  return {.name = "softmax_backward",
          .doc = "(y, dy) -> dx like y.",
          .attributes = SoftmaxSpecs(),
          .infer = InferSoftmaxBackward,
          .reference = SoftmaxReferenceBackward,
          .may_overwrite = [](const Attributes&, int input, int) { return input == 1; },
          .precision = Precision::kKeep32,
          .cases = SoftmaxBackwardCases};
}

}  // namespace moka
