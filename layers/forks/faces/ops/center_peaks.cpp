// Faces at the cells of a map (CenterFace, arXiv 1911.03599, as yuqj1991's detection_centernet_output_layer has it). A
// cell of 4 x 4 pixels whose score lies between the threshold and 1 has a face: its centre is the cell's corner moved
// by the first two places, its sides are the exponentials of the next two, in cells. Landmarks are where that layer
// puts them, four times the centre and a part of the box, in pixels: corners alone become parts of the image.
#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/faces.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kCenterPeaksOp = "center_peaks";
constexpr double kCell = 4;  // pixels

std::vector<TensorType> InferCenterPeaks(const Attributes& a, std::span<const TensorType> in) {
  CheckInputCount(kCenterPeaksOp, in, 2, 2);
  CheckFloat(kCenterPeaksOp, "places", in[0]);
  CheckFloat(kCenterPeaksOp, "scores", in[1]);
  const int64_t marks = a.Bool("landmarks") ? kFaceMarks : 0;
  const Shape& x = in[0].shape;
  const Shape& s = in[1].shape;
  if (x.rank() != 4 || x.Count() < 1 || x[1] != 4 + marks || s.rank() != 4 || s.Count() < 1 || s.With(1, x[1]) != x) {
    throw Error(ErrorKind::kConfig, StrCat(kCenterPeaksOp, ": places must be [N,", 4 + marks,
                                           ",H,W] and scores [N,C,H,W], found ", x.ToString(), " and ", s.ToString()));
  }
  const int64_t cells = s.Count(1, 4);
  const int64_t rows = a.Int("keep") > 0 ? std::min(a.Int("keep"), cells) : cells;
  return {PlainType(DType::kFloat32, {1, 1, (Size(x[0]) * rows).value(), 7 + marks})};
}

FoundFace FaceAt(const RefTensor& x, int64_t image, int64_t cell, int64_t marks) {
  const Shape& shape = x.type.shape;
  const int64_t plane = shape[2] * shape[3];
  const auto value = [&](int64_t channel) {
    return x.values[static_cast<size_t>((image * shape[1] + channel) * plane + cell)];
  };
  const double bounds[] = {kCell * static_cast<double>(shape[3]), kCell * static_cast<double>(shape[2])};
  const double center[] = {(static_cast<double>(cell % shape[3]) + value(0)) * kCell,
                           (static_cast<double>(cell / shape[3]) + value(1)) * kCell};
  const double sides[] = {std::exp(value(2)) * kCell, std::exp(value(3)) * kCell};
  FoundFace face;
  face.area = sides[0] * sides[1];
  for (size_t k = 0; k < 2; ++k) {
    face.places[k] = std::clamp(center[k] - sides[k] / 2, 0.0, bounds[k]);
    face.places[2 + k] = std::clamp(center[k] + sides[k] / 2, 0.0, bounds[k]);
  }
  const double box[] = {face.places[2] - face.places[0], face.places[3] - face.places[1]};
  for (int64_t k = 0; k < marks; ++k) {
    face.places[static_cast<size_t>(4 + k)] =
        std::clamp((center[k % 2] + value(4 + k) * box[k % 2]) * kCell, 0.0, bounds[k % 2]);
  }
  return face;
}

void CenterPeaksReference(const Attributes& a, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& s = in[1].type.shape;
  const int64_t plane = s[2] * s[3];
  const int64_t marks = a.Bool("landmarks") ? kFaceMarks : 0;
  std::ranges::fill(out[0].values, -1.0);
  double* row = out[0].values.data();
  for (int64_t image = 0; image < s[0]; ++image) {
    std::vector<FoundFace> found;
    for (int64_t i = 0; i < s[1] * plane; ++i) {
      const double score = in[1].values[static_cast<size_t>(image * s[1] * plane + i)];
      if (!(score > a.Float("confidence") && score < 1)) continue;
      found.push_back(FaceAt(in[0], image, i % plane, marks));
      found.back().score = score;
      found.back().label = i / plane + 1;
    }
    SuppressFaces(a.Float("nms"), a.Int("keep"), found);
    for (const FoundFace& f : found) {
      row[0] = static_cast<double>(image);
      row[1] = static_cast<double>(f.label);
      row[2] = f.score;
      for (int64_t k = 0; k < 4 + marks; ++k) {
        const double side = k >= 4 ? 1 : kCell * static_cast<double>(k % 2 == 0 ? s[3] : s[2]);
        row[3 + k] = f.places[static_cast<size_t>(k)] / side;
      }
      row += 7 + marks;
    }
  }
}

std::vector<OpCase> CenterPeaksCases() {
  const auto one = [](const char* name, int64_t channels, bool landmarks, int64_t keep) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, channels, 3, 4}), Float32({2, 2, 3, 4})},
                  .attributes = {{"landmarks", landmarks}, {"confidence", 0.3}, {"nms", 0.4}, {"keep", keep}},
                  .ranges = {{1, 0.1, 0.95}}};
  };
  return {one("boxes", 4, false, -1), one("landmarks", 14, true, 5)};
}

}  // namespace

OpDef CenterPeaksOp() {
  return {.name = "center_peaks",
          .doc =
              "places [N,4 or 14,H,W], scores [N,C,H,W] -> rows [1,1,R,7 or 17] of image, class from 1, score, xmin, "
              "ymin, xmax, ymax as parts of the picture and five landmarks, best first; unused rows are -1.",
          .attributes = {{"landmarks", false, "whether five landmarks follow the box"},
                         {"confidence", 0.0, "scores must be above"},
                         {"nms", 0.4, "overlap above which a lower score goes"},
                         {"keep", int64_t{-1}, "boxes of a picture; below 1: all"}},
          .infer = InferCenterPeaks,
          .reference = CenterPeaksReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kPeaks,
          .cases = CenterPeaksCases};
}

}  // namespace moka
