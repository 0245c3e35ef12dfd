// Boxes from YOLO's maps: decoding, a threshold, and one suppression over all classes. "softmax" (v2) takes the best
// class of each anchor at objectness times its probability, "sigmoid" (v3) every class above the threshold. Boxes are
// sorted by score; one that overlaps a kept one by nms_threshold or more goes. Rows (image, label from 1, score, left,
// top, right, bottom) of each image together, in the order of scores; the rest is -1. There are as many rows as
// anchors: classes of one anchor share its box, so at most one of them stays.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/yolo/ops/grid.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr size_t kRow = 7;

int64_t BoxValues(const Attributes& attributes) { return attributes.Bool("gaussian") ? 8 : 4; }

YoloGrid YoloDetectionsGrid(const Attributes& attributes, const Shape& x) {
  return GridOf("yolo_detections", x, attributes.Int("boxes"), BoxValues(attributes) + 1 + attributes.Int("classes"));
}

std::vector<TensorType> InferYoloDetections(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("yolo_detections", in, 1, 16);
  if (attributes.Int("classes") < 1 || attributes.Int("boxes") < 1) {
    throw Error(ErrorKind::kConfig, "yolo_detections: classes and boxes must be at least 1");
  }
  int64_t rows = 0;
  for (const TensorType& x : in) {
    CheckFloat("yolo_detections", "x", x);
    const YoloGrid grid = YoloDetectionsGrid(attributes, x.shape);
    if (x.shape[0] != in[0].shape[0]) {
      throw Error(ErrorKind::kConfig, StrCat("yolo_detections: all maps must have one batch, found ",
                                             in[0].shape.ToString(), " and ", x.shape.ToString()));
    }
    rows += grid.images * grid.anchors * grid.Cells();
  }
  const size_t sizes = attributes.Get<Doubles>("anchors").size();
  if (sizes != in.size() * static_cast<size_t>(2 * attributes.Int("boxes"))) {
    throw Error(ErrorKind::kConfig, StrCat("yolo_detections: ", in.size(), " maps of ", attributes.Int("boxes"),
                                           " boxes need a width and height for each, found ", sizes, " numbers"));
  }
  return {PlainType(DType::kFloat32, Shape{1, 1, rows, static_cast<int64_t>(kRow)})};
}

struct YoloDetectionsDetection {
  YoloBox box;
  int64_t label = 0;
  double score = 0;
};

// Decodes one map; sizes are its anchors' as parts of the image.
class Decoder {
 public:
  Decoder(const Attributes& attributes, const RefTensor& x, const double* sizes)
      : grid_(YoloDetectionsGrid(attributes, x.type.shape)),
        values_(x.values),
        sizes_(sizes),
        classes_(attributes.Int("classes")),
        threshold_(attributes.Float("confidence")),
        is_gaussian_(attributes.Bool("gaussian")),
        is_softmax_(attributes.String("scores") == "softmax") {}

  void Add(std::vector<std::vector<YoloDetectionsDetection>>& found) const {
    std::vector<double> scores(static_cast<size_t>(classes_));
    grid_.Visit([&](int64_t image, int64_t anchor, int64_t row, int64_t column) {
      const size_t at = grid_.At(image, anchor, row, column);
      for (int64_t c = 0; c < classes_; ++c) {
        scores[static_cast<size_t>(c)] = values_[grid_.Channel(at, ScoreChannel() + 1 + c)];
      }
      auto& out = found[static_cast<size_t>(image)];
      const double objectness = Objectness(at);
      if (is_softmax_) {
        SoftmaxInPlace(scores.data(), classes_, 1);
        const auto best = std::ranges::max_element(scores);
        if (objectness * *best < threshold_) return;
        out.push_back({BoxOf(at, anchor, row, column), best - scores.begin(), objectness * *best});
        return;
      }
      for (int64_t c = 0; c < classes_; ++c) {
        const double score = YoloSigmoid(scores[static_cast<size_t>(c)]) * objectness;
        if (score > threshold_) out.push_back({BoxOf(at, anchor, row, column), c, score});
      }
    });
  }

 private:
  int64_t ScoreChannel() const { return is_gaussian_ ? 8 : 4; }
  double Value(size_t at, int64_t channel) const { return values_[grid_.Channel(at, channel)]; }
  // Returns the objectness; with Gaussian boxes (arXiv 1904.04620) it is multiplied by 1 less the mean of the four
  // uncertainties.
  double Objectness(size_t at) const {
    double p = YoloSigmoid(Value(at, ScoreChannel()));
    double certainty = 4;
    for (const int64_t c : {1, 3, 5, 7}) certainty -= is_gaussian_ ? YoloSigmoid(Value(at, c)) : 0;
    return p * certainty / 4;
  }
  YoloBox BoxOf(size_t at, int64_t anchor, int64_t row, int64_t column) const {
    const int64_t step = is_gaussian_ ? 2 : 1;
    return {(static_cast<double>(column) + YoloSigmoid(Value(at, 0))) / static_cast<double>(grid_.width),
            (static_cast<double>(row) + YoloSigmoid(Value(at, step))) / static_cast<double>(grid_.height),
            std::exp(Value(at, 2 * step)) * sizes_[2 * anchor], std::exp(Value(at, 3 * step)) * sizes_[2 * anchor + 1]};
  }

  YoloGrid grid_;
  const std::vector<double>& values_;
  const double* sizes_;
  int64_t classes_;
  double threshold_;
  bool is_gaussian_;
  bool is_softmax_;
};

// Returns the detections that no better one overlaps.
std::vector<YoloDetectionsDetection> Suppressed(std::vector<YoloDetectionsDetection> sorted, double threshold) {
  std::ranges::stable_sort(
      sorted, [](const YoloDetectionsDetection& a, const YoloDetectionsDetection& b) { return a.score > b.score; });
  std::vector<YoloDetectionsDetection> kept;
  for (const YoloDetectionsDetection& d : sorted) {
    const auto hides = [&](const YoloDetectionsDetection& other) { return Iou(other.box, d.box) >= threshold; };
    if (std::ranges::none_of(kept, hides)) kept.push_back(d);
  }
  return kept;
}

void YoloDetectionsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<std::vector<YoloDetectionsDetection>> found(static_cast<size_t>(in[0].type.shape[0]));
  const double* sizes = attributes.Get<Doubles>("anchors").data();
  for (const RefTensor& x : in) {
    Decoder(attributes, x, sizes).Add(found);
    sizes += 2 * attributes.Int("boxes");
  }
  std::ranges::fill(out[0].values, -1.0);
  size_t at = 0;
  for (size_t image = 0; image < found.size(); ++image) {
    for (const YoloDetectionsDetection& d : Suppressed(std::move(found[image]), attributes.Float("nms"))) {
      if (at + kRow > out[0].values.size()) return;
      const double row[kRow] = {static_cast<double>(image),
                                static_cast<double>(d.label + 1),
                                d.score,
                                d.box.left(),
                                d.box.top(),
                                d.box.right(),
                                d.box.bottom()};
      std::ranges::copy(row, out[0].values.begin() + static_cast<std::ptrdiff_t>(at));
      at += kRow;
    }
  }
}

std::vector<OpCase> YoloDetectionsCases() {
  const auto make = [](const char* name, const char* scores, std::vector<TensorType> maps, bool gaussian) {
    Doubles anchors;
    for (size_t i = 0; i < maps.size() * 2; ++i)
      anchors.insert(anchors.end(), {0.1 + 0.1 * static_cast<double>(i), 0.2});
    return OpCase{.name = name,
                  .inputs = std::move(maps),
                  .attributes = {{"scores", std::string(scores)},
                                 {"classes", int64_t{3}},
                                 {"boxes", int64_t{2}},
                                 {"anchors", anchors},
                                 {"confidence", 0.2},
                                 {"nms", 0.45},
                                 {"gaussian", gaussian}}};
  };
  return {make("softmax", "softmax", {Float32({2, 16, 3, 3})}, false),
          make("sigmoid_two_maps", "sigmoid", {Float32({1, 16, 2, 3}), Float32({1, 16, 4, 6})}, false),
          make("gaussian", "sigmoid", {Float32({1, 24, 3, 2})}, true)};
}

}  // namespace

OpDef YoloDetectionsOp() {
  return {
      .name = "yolo_detections",
      .doc = "Maps [N,A*(5+C),H,W] -> [1,1,K,7]: rows (image, label, score, box corners) after suppression, then -1.",
      .attributes = {{"scores", {}, "\"softmax\" over the classes (v2) or a \"sigmoid\" each (v3)"},
                     {"classes", {}, "number of classes"},
                     {"boxes", {}, "anchors of a cell, the same for all maps"},
                     {"anchors", {}, "their widths and heights as parts of the image, map after map"},
                     {"confidence", 0.01, "least score"},
                     {"nms", 0.45, "overlap from which the lesser box goes"},
                     {"gaussian", false, "each of x, y, w, h is followed by its uncertainty"}},
      .infer = InferYoloDetections,
      .reference = YoloDetectionsReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kSuppresses,
      .cases = YoloDetectionsCases};
}

}  // namespace moka
