// How well landmarks, angles, gender and glasses of faces were found (yuqj1991's faceEvaluateLayer). A row of bottom 0
// has x of five landmarks, their y, yaw, pitch and roll in degrees and two scores each for gender and glasses; a row of
// the truth the same places and angles, gender, glasses, and the image's width and height. As there the marks for
// gender and glasses stay set from the first face of the batch that is right.
#include <cmath>
#include <numbers>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr int64_t kFound = 17;
constexpr int64_t kTruth = 17;
constexpr int64_t kScores = 10;

std::vector<TensorType> InferFaceScores(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("face_scores", in, 2, 2);
  CheckFloat("face_scores", "found", in[0]);
  CheckFloat("face_scores", "truth", in[1]);
  const Shape& x = in[0].shape;
  const Shape& t = in[1].shape;
  if (x.rank() != 2 || x.Count() < 1 || x[1] < kFound || t.rank() != 2 || t[0] != x[0] || t[1] != kTruth) {
    throw Error(ErrorKind::kConfig, StrCat("face_scores: found must be [N,C] with C at least ", kFound,
                                           " and truth [N,", kTruth, "], found ", x.ToString(), " and ", t.ToString()));
  }
  return {PlainType(in[0].dtype, {1, 1, x[0], kScores})};
}

void FaceScoresReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const int64_t rows = in[0].type.shape[0];
  bool is_right[] = {false, false};
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = in[0].values.data() + row * in[0].type.shape[1];
    const double* t = in[1].values.data() + row * kTruth;
    double* y = out[0].values.data() + row * kScores;
    const double width = t[15];
    const double height = t[16];
    for (int64_t k = 0; k < 5; ++k) {
      y[k] = std::hypot(width * (x[k] - t[k]), height * (x[5 + k] - t[5 + k])) / std::hypot(width, height);
    }
    for (int64_t k = 0; k < 2; ++k) {
      const double* scores = x + 13 + 2 * k;
      const double chosen = scores[1] > std::max(scores[0], 0.0) ? 1 : 0;
      is_right[k] = is_right[k] || t[13 + k] == chosen;
      y[5 + k] = is_right[k] ? 1 : 0;
    }
    for (int64_t k = 0; k < 3; ++k) y[7 + k] = std::cos((x[10 + k] - t[10 + k]) / 180 * std::numbers::pi);
  }
}

std::vector<OpCase> FaceScoresCases() {
  return {{.name = "faces", .inputs = {Float32({3, 17}), Float32({3, 17})}, .attributes = {}, .low = 0.1, .high = 0.9},
          {.name = "whole_numbers",
           .inputs = {Float32({4, 18}), Float32({4, 17})},
           .attributes = {},
           .low = 0.1,
           .high = 0.9,
           .ranges = {{1, 1, 3}},
           .tolerance = 1e-4}};
}

}  // namespace

OpDef FaceScoresOp() {
  return {.name = "face_scores",
          .doc =
              "(found [N,C], truth [N,17]) -> [1,1,N,10]: distances of five landmarks over the picture's diagonal, "
              "whether gender and glasses are right, cosines of the angles' errors.",
          .attributes = {},
          .infer = InferFaceScores,
          .reference = FaceScoresReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kEvaluates,
          .cases = FaceScoresCases};
}

}  // namespace moka
