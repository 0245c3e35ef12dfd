// Detections of all classes from a detector's probabilities, its offsets and their regions (Cascade R-CNN's
// FrcnnOutput). For each class but the background the regions of at least `threshold` are moved, cut to the image and
// thinned greedily; of all that are left the `most` best stay, class by class, best first. The first row stands for the
// image alone: (0, -1, ..). One image.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kClassDetectionsOp = "class_detections";

std::vector<TensorType> InferClassDetections(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kClassDetectionsOp, in, 4, 4);
  CheckOffsets(kClassDetectionsOp, attributes);
  (void)OverlapModeOf(kClassDetectionsOp, attributes);
  const int64_t classes = CheckRows(kClassDetectionsOp, "probabilities", in[0], 2, INT32_MAX);
  const int64_t columns = attributes.Bool("class_aware") ? (Size(classes) * 4).value() : 8;
  CheckRows(kClassDetectionsOp, "offsets", in[1], columns, columns);
  CheckRows(kClassDetectionsOp, "rois", in[2], 5, 6);
  CheckRows(kClassDetectionsOp, "sizes", in[3], 2, 2);
  const int64_t rows = in[0].shape[0];
  if (in[1].shape[0] != rows || in[2].shape[0] != rows) {
    throw Error(ErrorKind::kConfig,
                StrCat(kClassDetectionsOp, ": probabilities, offsets and rois must have a row a region, found ",
                       in[0].shape.ToString(), ", ", in[1].shape.ToString(), " and ", in[2].shape.ToString()));
  }
  const int64_t all = (Size(rows) * (classes - 1)).value();
  const int64_t most = attributes.Int("most") > 0 ? std::min(attributes.Int("most"), all) : all;
  return {PlainType(DType::kFloat32, Shape{(Size(most) + 1).value(), 7})};
}

struct ClassDetectionsDetection {
  int64_t label;
  double score;
  Box<double> box;
};

class Detector {
 public:
  Detector(const Attributes& attributes, std::span<const RefTensor> in)
      : attributes_(attributes), in_(in), rows_(in[0].type.shape[0]), classes_(Columns(in[0])) {}

  std::vector<ClassDetectionsDetection> All() const {
    std::vector<ClassDetectionsDetection> found;
    for (int64_t c = 1; c < classes_; ++c) {
      for (const ClassDetectionsDetection& d : OfClass(c)) found.push_back(d);
    }
    return found;
  }

 private:
  static int64_t Columns(const RefTensor& x) { return x.type.shape.Count(1, x.type.shape.rank()); }

  std::vector<ClassDetectionsDetection> OfClass(int64_t c) const {
    std::vector<ClassDetectionsDetection> candidates;
    std::vector<double> scores;
    for (int64_t r = 0; r < rows_; ++r) {
      const double score = in_[0].values[static_cast<size_t>(r * classes_ + c)];
      const bool is_row = in_[2].values[static_cast<size_t>(r * Columns(in_[2]))] == 0;
      if (!is_row || !(score >= attributes_.Float("threshold"))) continue;
      candidates.push_back({c, score, BoxOf(r, c)});
      scores.push_back(score);
    }
    const OverlapMode mode = OverlapModeOf(kClassDetectionsOp, attributes_);
    const auto box = [&](int64_t i) -> const Box<double>& { return candidates[static_cast<size_t>(i)].box; };
    std::vector<ClassDetectionsDetection> kept;
    for (const int64_t i : GreedyNms(FallingOrder<double>(scores, -1), -1, [&](int64_t a, int64_t b) {
           return OverlapBy(mode, box(a), box(b), kPixelSide) > attributes_.Float("nms_threshold");
         })) {
      kept.push_back(candidates[static_cast<size_t>(i)]);
    }
    return kept;
  }

  Box<double> BoxOf(int64_t r, int64_t c) const {
    const int64_t group = attributes_.Bool("class_aware") ? c : 1;
    const double* raw = in_[1].values.data() + r * Columns(in_[1]) + group * 4;
    std::array<double, 4> offsets{};
    for (size_t k = 0; k < 4; ++k) {
      offsets[k] = raw[k] * attributes_.Get<Doubles>("stds")[k] + attributes_.Get<Doubles>("means")[k];
    }
    const Box<double> region = BoxAt(in_[2].values.data() + r * Columns(in_[2]) + 1);
    const double height = in_[3].values[0];
    const double width = in_[3].values[1];
    if (!attributes_.Bool("holds_last")) return ClippedBox(MovedBox(region, offsets), height, width);
    const Box<double> box = MovedRegion(region, offsets);
    return {std::max(box[0], 0.0), std::max(box[1], 0.0), std::min(box[2], width), std::min(box[3], height)};
  }

  const Attributes& attributes_;
  std::span<const RefTensor> in_;
  int64_t rows_;
  int64_t classes_;
};

void ClassDetectionsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<ClassDetectionsDetection> found = Detector(attributes, in).All();
  std::vector<double> scores;
  for (const ClassDetectionsDetection& d : found) scores.push_back(d.score);
  std::vector<int64_t> best = FallingOrder<double>(scores, out[0].type.shape[0] - 1);
  // Class by class; within a class the order is already by falling score.
  std::ranges::sort(best);
  std::ranges::fill(out[0].values, kPaddingRow);
  out[0].values[0] = 0;
  for (size_t i = 0; i < best.size(); ++i) {
    const ClassDetectionsDetection& d = found[static_cast<size_t>(best[i])];
    double* row = out[0].values.data() + (i + 1) * 7;
    row[0] = 0;
    std::ranges::copy(d.box, row + 1);
    row[5] = static_cast<double>(d.label);
    row[6] = d.score;
  }
}

std::vector<OpCase> ClassDetectionsCases() {
  const auto one = [](const char* name, int64_t columns, int64_t roi, Attributes attributes) {
    attributes.Set("nms_threshold", 0.3);
    attributes.Set("threshold", 0.1);
    return OpCase{.name = name,
                  .inputs = {Float32({12, 3}), Float32({12, columns}), Float32({12, roi}), Float32({1, 2})},
                  .attributes = std::move(attributes),
                  .low = -0.5,
                  .high = 0.9,
                  .ranges = {{2, 0, 3}, {3, 9, 9}}};
  };
  return {one("aware", 12, 5, {{"most", int64_t{4}}}), one("agnostic", 8, 6, {{"class_aware", false}}),
          one("girshick", 12, 5, {{"most", int64_t{5}}, {"holds_last", false}})};
}

}  // namespace

OpDef ClassDetectionsOp() {
  std::vector<AttributeSpec> specs = {
      {"threshold", 0.0, "the least score"},
      {"nms_threshold", {}, "overlap above which the lower score goes"},
      {"overlap", std::string("IOU"), "shared area over the union, IOMU: the smaller box, IOFU: the kept one"},
      {"most", int64_t{0}, "detections of the image; 0: all"},
      {"class_aware", true, "whether each class has its offsets"},
      {"holds_last", true, "whether moved boxes hold their last pixel; false: py-faster-rcnn's boxes and cuts"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {.name = "class_detections",
          .doc =
              "(probabilities [R,classes], offsets [R,4*classes] or [R,8], rois [R,5 or 6], sizes [1,2]) -> detections "
              "(image, x1, y1, x2, y2, class, score) [D+1,7]; rows left over are -1.",
          .attributes = std::move(specs),
          .infer = InferClassDetections,
          .reference = ClassDetectionsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = ClassDetectionsCases};
}

}  // namespace moka
