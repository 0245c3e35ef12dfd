// The mean over a group of ranks, waited for: what a batch norm needs whose statistics are of several ranks' batches.
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {
namespace {

std::vector<TensorType> InferMeanOverRanks(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("mean_over_ranks", in, 1, 2);
  if (attributes.Int("ranks") < 1) {
    throw Error(ErrorKind::kConfig,
                StrCat("mean_over_ranks: ranks must be at least 1, found ", attributes.Int("ranks")));
  }
  return {PlainType(in[0].dtype, in[0].shape)};
}

void MeanOverRanksReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values = in[0].values;
}

// A rank's x is in the means of all ranks of its group, so its gradient is the mean of theirs.
void MeanOverRanksGradient(GradientContext& c) {
  c.SetDx(0, c.b().Add1("mean_over_ranks", {c.dy(0)},
                        {{"key", c.attributes().Int("key") + kBackwardKey}, {"ranks", c.attributes().Int("ranks")}}));
}

std::vector<OpCase> MeanOverRanksCases() {
  return {{"matrix", {Float32({3, 5})}, {{"key", int64_t{4}}, {"ranks", int64_t{1}}}},
          {"fence", {Float32({}), Float32({2})}, {}},
          {"scalar", {Float32({})}, {}}};
}

}  // namespace

OpDef MeanOverRanksOp() {
  return {.name = "mean_over_ranks",
          .doc =
              "x, fence -> y: the mean of x over `ranks` neighbouring ranks; x if there is one rank. fence is not "
              "read: it is what must be there before anybody waits.",
          .attributes = {{"key", int64_t{0}, "tells the tensors of a program apart; its gradient's is 2 more"},
                         {"ranks", int64_t{1}, "of a group"}},
          .infer = InferMeanOverRanks,
          .reference = MeanOverRanksReference,
          .gradient = MeanOverRanksGradient,
          .is_pure = false,
          .precision = Precision::kKeep32,
          .on_host = "ranks on GPUs take the statistics of their own batches so far",
          .cases = MeanOverRanksCases};
}

}  // namespace moka
