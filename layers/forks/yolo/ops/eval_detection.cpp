// Intel's EvalDetection: what a script needs for the average precision of YOLO v2. For each image the number of objects
// of each class, then (label, score, hit, miss) for each predicted box that survives one suppression over all classes
// and scores at least 0.005, by class and then score. A box hits if the object of its class that it overlaps most, by
// threshold or more, is not taken yet; if it is taken the box is a miss, and a box that overlaps none so much is
// neither, unless the image has no object of its class (as in the fork).
#include <algorithm>
#include <cmath>
#include <map>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/yolo/ops/grid.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr double kLeastScore = 0.005;

struct EvalDetectionScored {
  YoloBox box;
  int64_t label = 0;
  double score = 0;
};

YoloGrid EvalDetectionGrid(const Attributes& attributes, const Shape& x) {
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size() / 2);
  return GridOf("eval_detection", x, anchors, 5 + attributes.Int("classes"));
}

std::vector<TensorType> InferEvalDetection(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("eval_detection", in, 2, 2);
  CheckFloat("eval_detection", "x", in[0]);
  CheckFloat("eval_detection", "label", in[1]);
  const YoloGrid grid = EvalDetectionGrid(attributes, in[0].shape);
  if (in[1].shape.Count() % 8 != 0 || attributes.Int("classes") < 1) {
    throw Error(ErrorKind::kConfig, StrCat("eval_detection: labels are rows of 8 values, found ",
                                           in[1].shape.ToString(), "; classes must be at least 1"));
  }
  const int64_t values = attributes.Int("classes") + grid.Cells() * grid.anchors * 4;
  return {PlainType(DType::kFloat32, Shape{grid.images, values})};
}

// The box, best class and score of every anchor of an image, best first, those overlapped by a better one left out.
std::vector<EvalDetectionScored> EvalDetectionPredictions(const Attributes& attributes, const YoloGrid& grid,
                                                          const std::vector<double>& x, int64_t wanted) {
  const Doubles& anchors = attributes.Get<Doubles>("anchors");
  const std::string& kind = attributes.String("score");
  const int64_t classes = attributes.Int("classes");
  std::vector<EvalDetectionScored> found;
  for (int64_t cell = 0; cell < grid.Cells(); ++cell) {
    for (int64_t anchor = 0; anchor < grid.anchors; ++anchor) {
      const int64_t row = cell / grid.width;
      const int64_t column = cell % grid.width;
      const size_t at = grid.At(wanted, anchor, row, column);
      const auto value = [&](int64_t channel) { return x[grid.Channel(at, channel)]; };
      std::vector<double> p(static_cast<size_t>(classes));
      for (int64_t c = 0; c < classes; ++c) p[static_cast<size_t>(c)] = value(5 + c);
      SoftmaxInPlace(p.data(), classes, 1);
      const auto best = std::ranges::max_element(p);
      const double objectness = YoloSigmoid(value(4));
      const double score = kind == "obj" ? objectness : kind == "prob" ? *best : objectness * *best;
      const auto width = static_cast<double>(grid.width);
      const auto height = static_cast<double>(grid.height);
      found.push_back({{(static_cast<double>(column) + YoloSigmoid(value(0))) / width,
                        (static_cast<double>(row) + YoloSigmoid(value(1))) / height,
                        std::exp(value(2)) * anchors[static_cast<size_t>(2 * anchor)] / width,
                        std::exp(value(3)) * anchors[static_cast<size_t>(2 * anchor + 1)] / height},
                       best - p.begin(),
                       score});
    }
  }
  std::ranges::stable_sort(
      found, [](const EvalDetectionScored& a, const EvalDetectionScored& b) { return a.score > b.score; });
  std::vector<EvalDetectionScored> kept;
  for (const EvalDetectionScored& box : found) {
    const auto hides = [&](const EvalDetectionScored& other) {
      return Iou(other.box, box.box) >= attributes.Float("nms");
    };
    if (std::ranges::none_of(kept, hides)) kept.push_back(box);
  }
  return kept;
}

// Whether a box hits or misses one of the objects of its class, which it then takes.
std::pair<double, double> EvalDetectionJudge(const EvalDetectionScored& box, const std::vector<YoloObject>& objects,
                                             std::vector<bool>& taken, double threshold) {
  if (objects.empty()) return {0, 1};
  double most = -1;
  size_t nearest = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    const double overlap = Iou(box.box, objects[i].box);
    if (!(overlap > most)) continue;
    most = overlap;
    nearest = i;
  }
  if (most < threshold) return {0, 0};
  if (taken[nearest]) return {0, 1};
  taken[nearest] = true;
  return {1, 0};
}

void EvalDetectionReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const YoloGrid grid = EvalDetectionGrid(attributes, in[0].type.shape);
  const int64_t classes = attributes.Int("classes");
  const auto objects = ObjectsOfRows(in[1].values, grid.images, classes, 1, classes);
  std::ranges::fill(out[0].values, 0.0);
  const auto length = static_cast<size_t>(out[0].type.shape[1]);
  for (int64_t image = 0; image < grid.images; ++image) {
    double* top = out[0].values.data() + static_cast<size_t>(image) * length;
    std::map<int64_t, std::vector<YoloObject>> truths;
    for (const YoloObject& object : objects[static_cast<size_t>(image)]) {
      top[object.label] += 1;
      truths[object.label].push_back(object);
    }
    double* row = top + classes;
    const std::vector<EvalDetectionScored> kept = EvalDetectionPredictions(attributes, grid, in[0].values, image);
    for (int64_t label = 0; label < classes; ++label) {
      std::vector<bool> taken(truths[label].size(), false);
      for (const EvalDetectionScored& box : kept) {
        if (box.label != label || box.score < kLeastScore) continue;
        const auto [hit, miss] = EvalDetectionJudge(box, truths[label], taken, attributes.Float("threshold"));
        row[0] = static_cast<double>(label);
        row[1] = box.score;
        row[2] = hit;
        row[3] = miss;
        row += 4;
      }
    }
  }
}

std::vector<OpCase> EvalDetectionCases() {
  const auto make = [](const char* name, const char* score) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 16, 3, 3}), Float32({1, 1, 3, 8})},
                  .attributes = {{"classes", int64_t{3}},
                                 {"anchors", Doubles{1, 1.5, 2.5, 1}},
                                 {"score", std::string(score)},
                                 {"nms", 0.45}},
                  .ranges = {{1, 0, 2}}};
  };
  return {make("product", "multiply"), make("objectness", "obj"), make("probability", "prob")};
}

}  // namespace

OpDef EvalDetectionOp() {
  return {
      .name = "eval_detection",
      .doc =
          "(x [N,A*(5+C),H,W], label rows) -> [N, C + H*W*A*4]: objects a class, then (label, score, hit, miss) for "
          "each box kept, then zeros.",
      .attributes = {{"classes", {}, "number of classes"},
                     {"anchors", {}, "widths and heights of the anchors, in cells"},
                     {"score", std::string("multiply"), "obj, prob, or multiply: objectness times probability"},
                     {"threshold", 0.5, "overlap with an object from which a box hits"},
                     {"nms", 0.45, "overlap from which the lesser box goes"}},
      .infer = InferEvalDetection,
      .reference = EvalDetectionReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kEvaluates,
      .cases = EvalDetectionCases};
}

}  // namespace moka
