// Gives a gradient to the ranks' exchange, and takes the sum over all ranks from it.
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

template <int kFewest>
std::vector<TensorType> InferAllReduce(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount(kFewest == 1 ? "all_reduce_begin" : "all_reduce_end", in, kFewest, 2);
  return {PlainType(in[0].dtype, in[0].shape)};
}

void AllReduceReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

bool AllReduceMayOverwrite(const Attributes&, int input, int) { return input == 0; }

std::vector<OpCase> AllReduceBeginCases() {
  return {{"matrix", {Float32({3, 5}), Float32({4})}, {{"key", int64_t{2}}}}, {"scalar", {Float32({})}, {}}};
}

std::vector<OpCase> AllReduceEndCases() {
  return {{"matrix", {Float32({3, 5}), Float32({4})}, {{"key", int64_t{2}}}},
          {"scalar", {Float32({}), Float32({2, 3})}, {}}};
}

}  // namespace

OpDef AllReduceBeginOp() {
  return {.name = "all_reduce_begin",
          .doc =
              "x -> y: x, on its way to the sum over all ranks. Nothing but all_reduce_end may read y; x if there is "
              "one rank.",
          .attributes = {{"key", int64_t{0}, "tells the tensors of a program apart"}},
          .infer = InferAllReduce<1>,
          .reference = AllReduceReference,
          .may_overwrite = AllReduceMayOverwrite,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .cases = AllReduceBeginCases};
}

OpDef AllReduceEndOp() {
  return {.name = "all_reduce_end",
          .doc =
              "x, fence -> y: the sum over all ranks of what all_reduce_begin of the same key took; x if there is one "
              "rank. fence is not read: it is what must be there before anybody waits, so that all is on its way.",
          .attributes = {{"key", int64_t{0}, "that of all_reduce_begin"}},
          .infer = InferAllReduce<2>,
          .reference = AllReduceReference,
          .may_overwrite = AllReduceMayOverwrite,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .cases = AllReduceEndCases};
}

}  // namespace moka
