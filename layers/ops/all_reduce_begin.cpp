// Gives a gradient to the ranks' exchange.
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/ops.h"

namespace moka {
namespace {

std::vector<TensorType> Infer(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("all_reduce_begin", in, 1, 2);
  return {PlainType(in[0].dtype, in[0].shape)};
}

void Reference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

bool MayOverwrite(const Attributes&, int input, int) { return input == 0; }

std::vector<OpCase> Cases() {
  return {{"matrix", {Float32({3, 5}), Float32({4})}, {{"key", int64_t{2}}}}, {"scalar", {Float32({})}, {}}};
}

}  // namespace

OpDef AllReduceBeginOp() {
  return {.name = "all_reduce_begin",
          .doc =
              "x -> y: x, on its way to the sum over all ranks. Nothing but all_reduce_end may read y; x if there is "
              "one rank.",
          .attributes = {{"key", int64_t{0}, "tells the tensors of a program apart"}},
          .infer = Infer,
          .reference = Reference,
          .may_overwrite = MayOverwrite,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .cases = Cases};
}

}  // namespace moka
