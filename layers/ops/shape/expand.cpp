// x repeated along its dimensions of 1 (or a scalar everywhere).
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferExpand(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("expand", in, 1, 1);
  const Shape y = ShapeAttribute("expand", attributes, "shape");
  const Shape& x = in[0].shape;
  bool fits = x.rank() == 0 || x.rank() == y.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = x[i] == 1 || x[i] == y[i];
  if (!fits) {
    throw Error(ErrorKind::kConfig,
                StrCat("expand: x ", x.ToString(), " cannot become ", y.ToString(), "; dimensions must be equal or 1"));
  }
  return {PlainType(in[0].dtype, y)};
}

void ExpandReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  VisitElements(out[0].type.shape, [&](Index index, int64_t offset) {
    for (int i = 0; i < x.rank(); ++i) {
      if (x[i] == 1) index[static_cast<size_t>(i)] = 0;
    }
    out[0].values[static_cast<size_t>(offset)] = in[0].values[static_cast<size_t>(RowMajor(x, index))];
  });
}

void ExpandGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().SumTo(c.dy(0), c.b().shape(c.x(0))));
}

std::vector<OpCase> ExpandCases() {
  const auto to = [](Ints shape) { return Attributes{{"shape", std::move(shape)}}; };
  return {
      {"channels", {Float32({1, 3, 1, 1})}, to({2, 3, 4, 5})},
      {"last_axis", {Float32({4, 1})}, to({4, 7})},
      {"first_axis", {Float32({1, 5})}, to({3, 5})},
      {"middle_axis", {Float32({2, 1, 3})}, to({2, 4, 3})},
      {"scalar", {Float32({})}, to({2, 3})},
      {"same", {Float32({2, 3})}, to({2, 3})},
  };
}

}  // namespace

OpDef ExpandOp() {
  return {.name = "expand",
          .doc = "x -> y of a larger shape: x repeated along its dimensions of 1.",
          .attributes = {{"shape", {}, "the shape of y; equal to x's but where x has 1"}},
          .infer = InferExpand,
          .reference = ExpandReference,
          .gradient = ExpandGradient,
          .repeats = AlwaysRepeats,
          .cases = ExpandCases};
}

}  // namespace moka
