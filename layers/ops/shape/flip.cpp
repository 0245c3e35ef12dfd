// x mirrored along some axes.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferFlip(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("flip", in, 1, 1);
  for (const int64_t axis : attributes.Get<Ints>("axes")) {
    if (axis >= 0 && axis < in[0].shape.rank()) continue;
    throw Error(ErrorKind::kConfig, StrCat("flip: axis ", axis, " is not one of ", in[0].shape.ToString()));
  }
  return {PlainType(in[0].dtype, in[0].shape)};
}

void FlipReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  VisitElements(shape, [&](const Index& y, int64_t offset) {
    Index x = y;
    for (const int64_t axis : attributes.Get<Ints>("axes")) {
      const auto a = static_cast<size_t>(axis);
      x[a] = shape[static_cast<int>(axis)] - 1 - y[a];
    }
    out[0].values[static_cast<size_t>(offset)] = in[0].values[static_cast<size_t>(RowMajor(shape, x))];
  });
}

void FlipGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().Add1("flip", {c.dy(0)}, c.attributes()));
}

std::vector<OpCase> FlipCases() {
  const auto along = [](Ints axes) { return Attributes{{"axes", std::move(axes)}}; };
  return {{"width", {Float32({2, 3, 4, 5})}, along({3})},
          {"height", {Float32({2, 3, 4, 5})}, along({2})},
          {"both", {Float32({2, 3, 4, 5})}, along({2, 3})},
          {"first", {Float32({7})}, along({0})},
          {"nothing", {Float32({2, 3})}, along({})}};
}

}  // namespace

OpDef FlipOp() {
  return {.name = "flip",
          .doc = "x -> y: x with the order of some axes reversed.",
          .attributes = {{"axes", {}, "the axes that are reversed"}},
          .infer = InferFlip,
          .reference = FlipReference,
          .gradient = FlipGradient,
          .precision = Precision::kKeep32,
          .cases = FlipCases};
}

}  // namespace moka
