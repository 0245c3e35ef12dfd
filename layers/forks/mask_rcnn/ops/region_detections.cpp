// Detections of the second stage (Girshick 2015), for batches of several images: of each class but the background the
// regions above `threshold`, moved by their class's code, cut to the image and thinned greedily; of all that are left
// the `most` best of each image, best first.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kRegionDetectionsOp = "region_detections";

std::vector<TensorType> InferRegionDetections(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kRegionDetectionsOp, in, 3, 3);
  CheckRois(kRegionDetectionsOp, in[0]);
  CheckFloat(kRegionDetectionsOp, "probabilities", in[1]);
  CheckFloat(kRegionDetectionsOp, "codes", in[2]);
  (void)PictureExtent::Of(kRegionDetectionsOp, attributes);
  const Shape& scores = in[1].shape;
  const int64_t regions = in[0].shape[0];
  const int64_t classes = scores.rank() < 2 ? 0 : scores.Count(1, scores.rank());
  if (classes < 2 || scores[0] != regions || in[2].shape.rank() < 2 || in[2].shape[0] != regions ||
      in[2].shape.Count(1, in[2].shape.rank()) != (Size(classes) * 4).value()) {
    throw Error(ErrorKind::kConfig,
                StrCat(kRegionDetectionsOp,
                       ": probabilities must be [R,classes] and codes "
                       "[R,4*classes], found ",
                       scores.ToString(), " and ", in[2].shape.ToString(), " for ", regions, " regions"));
  }
  if (attributes.Get<Doubles>("stds").size() != 4) {
    throw Error(ErrorKind::kConfig, StrCat(kRegionDetectionsOp, ": stds must be four numbers"));
  }
  const int64_t most = attributes.Int("most");
  if (most < 1) {
    throw Error(ErrorKind::kConfig, StrCat(kRegionDetectionsOp, ": most must be at least 1, found ", most));
  }
  const int64_t rows = (Size(attributes.Int("pictures")) * most).value();
  return {PlainType(DType::kFloat32, Shape{1, 1, rows, 7}), PlainType(DType::kFloat32, Shape{rows, 5}),
          PlainType(DType::kFloat32, Shape{rows})};
}

struct RegionDetection {
  int64_t label;
  double score;
  Box<double> box;
};

// Returns the detections of one image and class, best first.
std::vector<RegionDetection> DetectionsOfClass(const Attributes& attributes, std::span<const RefTensor> in,
                                               int64_t picture, int64_t label) {
  const PictureExtent size = PictureExtent::Of(kRegionDetectionsOp, attributes);
  const auto& stds = attributes.Get<Doubles>("stds");
  const int64_t classes = in[1].type.shape.Count(1, in[1].type.shape.rank());
  const double least = attributes.Float("threshold");
  const double min_side = attributes.Float("min_side");
  std::vector<RegionDetection> candidates;
  std::vector<double> scores;
  for (int64_t r = 0; r < in[0].type.shape[0]; ++r) {
    const double* roi = in[0].values.data() + r * 5;
    const double score = in[1].values[static_cast<size_t>(r * classes + label)];
    if (roi[0] != static_cast<double>(picture) || !(score > least)) continue;
    std::array<double, 4> code{};
    std::copy_n(in[2].values.data() + (r * classes + label) * 4, 4, code.begin());
    const Box<double> box = size.Cut(BoxOfCode({roi[1], roi[2], roi[3], roi[4]}, code, stds));
    if (!HasSides(box, min_side)) continue;
    candidates.push_back({label, score, box});
    scores.push_back(score);
  }
  const double threshold = attributes.Float("nms_threshold");
  const auto box = [&](int64_t i) -> const Box<double>& { return candidates[static_cast<size_t>(i)].box; };
  std::vector<RegionDetection> kept;
  for (const int64_t i : GreedyNms(FallingOrder<double>(scores, -1), attributes.Int("most"), [&](int64_t a, int64_t b) {
         return Overlap(box(a), box(b), kUnitSide) > threshold;
       })) {
    kept.push_back(candidates[static_cast<size_t>(i)]);
  }
  return kept;
}

void RegionDetectionsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const PictureExtent size = PictureExtent::Of(kRegionDetectionsOp, attributes);
  const int64_t classes = in[1].type.shape.Count(1, in[1].type.shape.rank());
  const int64_t most = attributes.Int("most");
  std::ranges::fill(out[0].values, -1.0);
  std::ranges::fill(out[1].values, 0.0);
  std::ranges::fill(out[2].values, -1.0);
  for (size_t i = 0; i < out[1].values.size(); i += 5) out[1].values[i] = kNoPicture;
  for (int64_t n = 0; n < attributes.Int("pictures"); ++n) {
    std::vector<RegionDetection> all;
    std::vector<double> scores;
    for (int64_t c = 1; c < classes; ++c) {
      for (const RegionDetection& d : DetectionsOfClass(attributes, in, n, c)) {
        all.push_back(d);
        scores.push_back(d.score);
      }
    }
    int64_t row = n * most;
    for (const int64_t i : FallingOrder<double>(scores, most)) {
      const RegionDetection& d = all[static_cast<size_t>(i)];
      const auto label = static_cast<double>(d.label);
      const std::array<double, 7> written = {
          static_cast<double>(n), label, d.score, d.box[0] / size.width, d.box[1] / size.height, d.box[2] / size.width,
          d.box[3] / size.height};
      std::ranges::copy(written, out[0].values.begin() + row * 7);
      out[1].values[static_cast<size_t>(row * 5)] = static_cast<double>(n);
      std::ranges::copy(d.box, out[1].values.begin() + row * 5 + 1);
      out[2].values[static_cast<size_t>(row)] = label;
      ++row;
    }
  }
}

std::vector<OpCase> RegionDetectionsCases() {
  const Attributes attributes{{"height", int64_t{16}}, {"width", int64_t{20}}, {"pictures", int64_t{2}},
                              {"most", int64_t{6}},    {"threshold", 0.3},     {"nms_threshold", 0.2}};
  const auto one = [&](const char* name, const Attributes& more) {
    return OpCase{.name = name,
                  .inputs = {Float32({30, 5}), Float32({30, 3}), Float32({30, 12})},
                  .attributes = With(attributes, more),
                  .low = 0,
                  .high = 1,
                  .ranges = {{0, -1, 14}}};
  };
  return {one("best", {}), one("padded", {{"most", int64_t{90}}, {"threshold", 0.9}})};
}

}  // namespace

OpDef RegionDetectionsOp() {
  std::vector<AttributeSpec> specs = PictureAttributes();
  const std::vector<AttributeSpec> own = {{"pictures", {}, "of the batch"},
                                          {"most", int64_t{100}, "rows of a picture"},
                                          {"threshold", 0.05, "probability that a detection is above"},
                                          {"nms_threshold", 0.5, "overlap above which the lower score of a class goes"},
                                          {"min_side", 0.01, "pixels that both sides of a detection must have"},
                                          {"stds", Doubles{0.1, 0.1, 0.2, 0.2}, "the codes are multiplied by them"}};
  specs.insert(specs.end(), own.begin(), own.end());
  return {.name = std::string(kRegionDetectionsOp),
          .doc =
              "(rois [R,5], probabilities [R,C], codes [R,4C]) -> rows [1,1,N*most,7] of picture, class, score, xmin, "
              "ymin, xmax, ymax as parts of the picture (-1: unused), the same boxes as rois [N*most,5] in pixels, and "
              "their classes [N*most].",
          .attributes = specs,
          .infer = InferRegionDetections,
          .reference = RegionDetectionsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = RegionDetectionsCases};
}

}  // namespace moka
