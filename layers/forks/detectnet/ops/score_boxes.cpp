// Detections against the truth (DetectNet's mean_ap.py): each true box in turn takes the first detection that is free
// and overlaps it by 0.7 or more. Rows: detections that were taken (1), those that were not (2), true boxes that found
// none (3). 50 rows an image at most; rows of zeros are no boxes. Overlaps are floats, as there.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/boxes.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kScoreBoxesOp = "score_boxes";
constexpr int64_t kScoreBoxesMaxBoxes = 50;
constexpr double kLeastOverlap = 0.7;

std::vector<TensorType> InferScoreBoxes(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount(kScoreBoxesOp, in, 2, 2);
  CheckFloat(kScoreBoxesOp, "truth", in[0]);
  CheckFloat(kScoreBoxesOp, "detections", in[1]);
  const Shape& truth = in[0].shape;
  const Shape& detections = in[1].shape;
  if (truth.rank() != 3 || detections.rank() != 3 || truth[0] != detections[0] || truth[2] < 4 || detections[2] < 4) {
    throw Error(ErrorKind::kConfig, StrCat(kScoreBoxesOp, ": truth and detections must be [N,boxes,5] of one N, found ",
                                           truth.ToString(), " and ", detections.ToString()));
  }
  return {PlainType(DType::kFloat32, Shape{truth[0], kScoreBoxesMaxBoxes, 5})};
}

std::vector<Box<float>> BoxesOf(const RefTensor& x, int64_t n) {
  std::vector<Box<float>> boxes;
  const Shape& shape = x.type.shape;
  for (int64_t i = 0; i < shape[1]; ++i) {
    const double* row = x.values.data() + (n * shape[1] + i) * shape[2];
    Box<float> box{};
    std::ranges::transform(row, row + 4, box.begin(), [](double v) { return static_cast<float>(v); });
    if (box != Box<float>{}) boxes.push_back(box);
  }
  return boxes;
}

// Areas have signs here, unlike Overlap's: a box with its corners exchanged counts as it does in the original.
float SharedPart(const Box<float>& a, const Box<float>& b) {
  const float width = std::max(0.0F, std::min(a[2], b[2]) - std::max(a[0], b[0]));
  const float height = std::max(0.0F, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  const float both = width * height;
  if (both == 0) return 0;
  const auto area = [](const Box<float>& box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  return both / (area(a) + area(b) - both);
}

void ScoreBoxesReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t n = 0; n < in[0].type.shape[0]; ++n) {
    const std::vector<Box<float>> truth = BoxesOf(in[0], n);
    const std::vector<Box<float>> found = BoxesOf(in[1], n);
    std::vector<bool> is_taken(found.size(), false);
    std::vector<std::pair<Box<float>, double>> missed;
    for (const Box<float>& box : truth) {
      size_t j = 0;
      while (j < found.size() && (is_taken[j] || !(static_cast<double>(SharedPart(found[j], box)) >= kLeastOverlap)))
        ++j;
      if (j < found.size()) {
        is_taken[j] = true;
      } else {
        missed.emplace_back(box, 3);
      }
    }
    std::vector<std::pair<Box<float>, double>> rows;
    for (const bool taken : {true, false}) {
      for (size_t j = 0; j < found.size(); ++j) {
        if (is_taken[j] == taken) rows.emplace_back(found[j], taken ? 1 : 2);
      }
    }
    rows.insert(rows.end(), missed.begin(), missed.end());
    double* to = out[0].values.data() + n * kScoreBoxesMaxBoxes * 5;
    for (size_t i = 0; i < std::min(rows.size(), static_cast<size_t>(kScoreBoxesMaxBoxes)); ++i) {
      to = std::ranges::copy(rows[i].first, to).out;
      *to++ = rows[i].second;
    }
  }
}

std::vector<OpCase> ScoreBoxesCases() {
  return {
      {.name = "few", .inputs = {Float32({2, 4, 5}), Float32({2, 6, 5})}, .attributes = {}, .low = 0, .high = 3},
      {.name = "many", .inputs = {Float32({1, 50, 5}), Float32({1, 50, 5})}, .attributes = {}, .low = 0, .high = 2}};
}

}  // namespace

OpDef ScoreBoxesOp() {
  return {.name = "score_boxes",
          .doc =
              "(truth [N,T,5], detections [N,D,5]: x1, y1, x2, y2, ..) -> [N,50,5]: detections that match a true box "
              "(mark 1), those that do not (2), true boxes that none matches (3); rows left over are 0.",
          .attributes = {},
          .infer = InferScoreBoxes,
          .reference = ScoreBoxesReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kEvaluates,
          .cases = ScoreBoxesCases};
}

}  // namespace moka
