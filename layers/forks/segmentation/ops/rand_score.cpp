// The Rand scores of images cut into regions, restricted to the foreground of the labels (Arganda-Carreras et al.,
// "Crowdsourcing the creation of image segmentation algorithms for connectomics", Frontiers in Neuroanatomy 2015).
// Let n_ij be the pixels of the labels' region i that lie in the predicted region j: split = sum n_ij^2 / sum_i (sum_j
// n_ij)^2 falls when regions are cut, merge = sum n_ij^2 / sum_j (sum_i n_ij)^2 when they run together, and the F-score
// is their harmonic mean. Predicted borders have no width: their pixels join the nearest predicted region, in place of
// the challenge's thinning.
#include "layers/forks/segmentation/ops/rand_score.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferRandScore(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("rand_score", in, 2, 2);
  CheckFloat("rand_score", "probability", in[0]);
  CheckFloat("rand_score", "label", in[1]);
  const Shape& x = in[0].shape;
  const int64_t label = attributes.Int("object_label");
  if (x.rank() != 4 || label < 0 || label >= x[1]) {
    throw Error(ErrorKind::kConfig, StrCat("rand_score: probability must be [N,C,H,W] with an object_label below C, "
                                           "found ",
                                           x.ToString(), " and ", label));
  }
  CheckShape("rand_score", "label", in[1].shape, x.With(1, 1), "a label for each pixel");
  return {PlainType(DType::kFloat32, Shape{x[0], 3})};
}

void RandScoreReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  ScoreRand(attributes, in[0].type.shape, in[0].values.data(), in[1].values.data(), out[0].values.data());
}

std::vector<OpCase> RandScoreCases() {
  return {{.name = "defaults",
           .inputs = {Float32({2, 2, 9, 8}), Float32({2, 1, 9, 8})},
           .attributes = {},
           .low = 0,
           .ranges = {{1, 0, 1}}},
          {.name = "small_left_out",
           .inputs = {Float32({1, 3, 7, 12}), Float32({1, 1, 7, 12})},
           .attributes = {{"object_label", int64_t{2}}, {"threshold", 0.3}, {"least_pixels", int64_t{4}}},
           .low = 0,
           .ranges = {{1, 0, 2}}}};
}

}  // namespace

OpDef RandScoreOp() {
  return {.name = "rand_score",
          .doc =
              "(probability [N,C,H,W], label [N,1,H,W]) -> [N,3]: the Rand F-score of each picture's regions, "
              "restricted to the labels' objects, and its merge and split scores.",
          .attributes = {{"object_label", int64_t{1}, "the class of regions"},
                         {"threshold", 0.5, "above it a pixel is inside"},
                         {"least_pixels", int64_t{0}, "smaller predicted regions are borders"}},
          .infer = InferRandScore,
          .reference = RandScoreReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kFlood,
          .cases = RandScoreCases};
}

}  // namespace moka
