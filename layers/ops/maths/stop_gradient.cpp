// The identity, through which no gradient flows.
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/traits.h"

namespace moka {
namespace {

std::vector<TensorType> InferStopGradient(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("stop_gradient", in, 1, 1);
  return {PlainType(in[0].dtype, in[0].shape)};
}

void StopGradientReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

std::vector<OpCase> StopGradientCases() { return {{"any", {Float32({2, 3})}, {}}}; }

}  // namespace

OpDef StopGradientOp() {
  return {.name = "stop_gradient",
          .doc = "x -> y equal to x; y's gradient does not reach x.",
          .attributes = {},
          .infer = InferStopGradient,
          .reference = StopGradientReference,
          .is_alias = true,
          .repeats = AlwaysRepeats,
          .cases = StopGradientCases};
}

}  // namespace moka
