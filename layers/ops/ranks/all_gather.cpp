// Gives a weight to the ranks' exchange, which brings it from its owner to all ranks, and waits for it.
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

std::vector<TensorType> InferBegin(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("all_gather_begin", in, 2, 3);
  CheckShape("all_gather_begin", "new", in[1].shape, in[0].shape, "as the weight");
  return {PlainType(in[0].dtype, in[0].shape)};
}

std::vector<TensorType> InferEnd(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("all_gather_end", in, 1, 1);
  return {PlainType(in[0].dtype, in[0].shape)};
}

void ReferenceBegin(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[attributes.Bool("owned") ? 1 : 0].values;
}

void ReferenceEnd(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

bool AllGatherMayOverwrite(const Attributes&, int input, int) { return input == 0; }

std::vector<OpCase> AllGatherBeginCases() {
  return {{"own", {Float32({3, 5}), Float32({3, 5}), Float32({4})}, {{"key", int64_t{2}}, {"owned", true}}},
          {"of_another_rank", {Float32({3, 5}), Float32({3, 5})}, {{"owned", false}}}};
}

std::vector<OpCase> AllGatherEndCases() { return {{"matrix", {Float32({3, 5})}, {{"key", int64_t{2}}}}}; }

}  // namespace

OpDef AllGatherBeginOp() {
  return {
      .name = "all_gather_begin",
      .doc =
          "w, new, fence -> y: what the weight w's owner makes of it, on its way to all ranks, where w lies. On the "
          "owner that is new; elsewhere new is not read, only what must have gone before. fence neither: it is "
          "what begins first. Nothing reads y but what comes behind all_gather_end in a later run.",
      .attributes = {{"key", int64_t{0}, "tells the tensors of a program apart"},
                     {"owned", {}, "whether this rank owns the weight"}},
      .infer = InferBegin,
      .reference = ReferenceBegin,
      .may_overwrite = AllGatherMayOverwrite,
      .is_pure = false,
      .precision = Precision::kKeep32,
      .on_host = "each rank on GPUs updates all weights so far",
      .cases = AllGatherBeginCases};
}

OpDef AllGatherEndOp() {
  return {.name = "all_gather_end",
          .doc =
              "w -> y: w once it has come whole from its owner, by the all_gather_begin of the same key in the run "
              "before. An alias that waits; the pass await_gathers puts it in front of the first reader.",
          .attributes = {{"key", int64_t{0}, "that of all_gather_begin"}},
          .infer = InferEnd,
          .reference = ReferenceEnd,
          .is_alias = true,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .cases = AllGatherEndCases};
}

}  // namespace moka
