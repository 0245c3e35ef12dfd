// The same values in another memory layout. infer gives a plain output; the layout pass sets the output's type.
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferReorder(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("reorder", in, 1, 1);
  (void)Layout::Parse(attributes.String("layout"));
  return {PlainType(in[0].dtype, in[0].shape)};
}

void ReorderReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

void ReorderGradient(GradientContext& c) {
  if (c.wants(0)) c.SetDx(0, c.dy(0));
}

std::vector<OpCase> ReorderCases() {
  return {{"plain", {Float32({2, 3, 4, 5})}, {{"layout", std::string("abcd")}}},
          {"blocked", {Float32({2, 17, 4, 5})}, {{"layout", std::string("aBcd16b")}}}};
}

}  // namespace

OpDef ReorderOp() {
  return {.name = "reorder",
          .doc = "x -> y: the same values in another memory layout.",
          .attributes = {{"layout", {}, "the layout of y, named as in core/types.h"}},
          .infer = InferReorder,
          .reference = ReorderReference,
          .gradient = ReorderGradient,
          .cases = ReorderCases};
}

}  // namespace moka
