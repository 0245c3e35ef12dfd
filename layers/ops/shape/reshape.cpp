// The same elements in row-major order under other dimensions; shares x's memory.
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"

namespace moka {
namespace {

std::vector<TensorType> InferReshape(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("reshape", in, 1, 1);
  const Shape y = ShapeAttribute("reshape", attributes, "shape");
  if (y.Count() != in[0].shape.Count()) {
    throw Error(ErrorKind::kConfig, StrCat("reshape: x ", in[0].shape.ToString(), " has ", in[0].shape.Count(),
                                           " elements but the shape ", y.ToString(), " has ", y.Count()));
  }
  return {PlainType(in[0].dtype, y)};
}

void ReshapeReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void ReshapeGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.b().Reshape(c.dy(0), c.b().shape(c.x(0))));
}

std::vector<OpCase> ReshapeCases() {
  const auto to = [](Ints shape) { return Attributes{{"shape", std::move(shape)}}; };
  return {{"flatten", {Float32({2, 3, 4, 5})}, to({2, 60})},
          {"split", {Float32({6, 4})}, to({2, 3, 2, 2})},
          {"scalar", {Float32({1, 1})}, to({})},
          {"as_it_is", {Float32({2, 3})}, to({2, 3})}};
}

}  // namespace

OpDef ReshapeOp() {
  return {.name = "reshape",
          .doc = "x -> y: the same elements in row-major order under other dimensions.",
          .attributes = {{"shape", {}, "the dimensions of y, with as many elements as x"}},
          .infer = InferReshape,
          .reference = ReshapeReference,
          .gradient = ReshapeGradient,
          .is_alias = true,
          .repeats = AlwaysRepeats,
          .cases = ReshapeCases};
}

}  // namespace moka
