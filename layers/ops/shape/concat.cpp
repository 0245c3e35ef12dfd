// Inputs one after another along an axis; the other dimensions are equal.
#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferConcat(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("concat", in, 1, 1U << 20U);
  const Shape& first = in[0].shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), first, "concat: axis");
  Size size = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape& shape = in[i].shape;
    if (shape.rank() != first.rank() || shape.With(axis, 0) != first.With(axis, 0)) {
      throw Error(ErrorKind::kConfig, StrCat("concat: inputs may differ along axis ", axis, " only, but input 0 is ",
                                             first.ToString(), " and input ", i, " is ", shape.ToString()));
    }
    CheckSameDType("concat", "input 0", in[0], StrCat("input ", i), in[i]);
    size += shape[axis];
  }
  return {PlainType(in[0].dtype, first.With(axis, size.value()))};
}

void ConcatReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& y = out[0].type.shape;
  const int axis = CanonicalAxis(attributes.Int("axis"), y, "axis");
  int64_t start = 0;
  for (const RefTensor& x : in) {
    VisitElements(x.type.shape, [&](Index index, int64_t offset) {
      index[static_cast<size_t>(axis)] += start;
      out[0].values[static_cast<size_t>(RowMajor(y, index))] = x.values[static_cast<size_t>(offset)];
    });
    start += x.type.shape[axis];
  }
}

void ConcatGradient(GradientContext& c) {
  const int axis = CanonicalAxis(c.attributes().Int("axis"), c.b().shape(c.x(0)), "axis");
  Ints sizes;
  for (int i = 0; i < c.input_count(); ++i) sizes.push_back(c.b().shape(c.x(i))[axis]);
  const auto parts = c.b().Add("slice", {c.dy(0)}, {{"axis", int64_t{axis}}, {"sizes", sizes}});
  for (int i = 0; i < c.input_count(); ++i) {
    if (c.wants(i)) c.SetDx(i, parts[static_cast<size_t>(i)]);
  }
}

std::vector<OpCase> ConcatCases() {
  const auto along = [](int64_t axis) { return Attributes{{"axis", axis}}; };
  return {
      {"channels", {Float32({2, 3, 4, 5}), Float32({2, 1, 4, 5}), Float32({2, 4, 4, 5})}, along(1)},
      {"blocked_channels", {Float32({2, 16, 3, 3}), Float32({2, 32, 3, 3}), Float32({2, 16, 3, 3})}, along(1)},
      {"batch", {Float32({1, 16, 3, 2}), Float32({3, 16, 3, 2})}, along(0)},
      {"last_axis", {Float32({3, 4}), Float32({3, 2})}, along(-1)},
      {"one_input", {Float32({3, 4})}, along(0)},
      {"an_empty_input", {Float32({3, 0}), Float32({3, 2})}, along(1)},
  };
}

}  // namespace

OpDef ConcatOp() {
  return {.name = "concat",
          .doc = "(x0, x1, ..) -> y: the inputs one after another along an axis.",
          .attributes = {{"axis", {}, "the axis that grows; negative counts from the end"}},
          .infer = InferConcat,
          .reference = ConcatReference,
          .gradient = ConcatGradient,
          .by_image = [](const Attributes& attributes,
                         int rank) { return UnlessAlongImages(attributes, rank, ByImage::kOfImages); },
          .repeats = AlwaysRepeats,
          .cases = ConcatCases};
}

}  // namespace moka
