// EvalDetection of yeahkun's caffe-yolo: what a script needs for the average precision of YOLO v1. For each image the
// number of objects of each class that are not difficult, then (label, score, hit, miss) for each predicted box that
// survives one suppression over all classes, by class and then score. A box hits if the object of its class that it
// overlaps most, by threshold or more, is not taken yet; a difficult one counts neither way.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/yolo/ops/squares.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

struct EvalSquaresScored {
  YoloBox box;
  int64_t label = 0;
  double score = 0;
};

std::vector<TensorType> InferEvalSquares(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("eval_squares", in, 2, 2);
  const Squares squares("eval_squares", attributes, in[0], in[1]);
  const int64_t values = (Size(squares.count()) * squares.boxes() * 4 + squares.classes()).value();
  return {PlainType(DType::kFloat32, Shape{squares.items(), values})};
}

// Every box of an image with its square's best class, best first; with nms not below 0 without those that a better one
// overlaps.
std::vector<EvalSquaresScored> EvalSquaresPredictions(const Attributes& attributes, const Squares& squares,
                                                      const std::vector<double>& x, int64_t item) {
  const std::string& kind = attributes.String("score");
  std::vector<EvalSquaresScored> found;
  for (int64_t square = 0; square < squares.count(); ++square) {
    int64_t label = 0;
    for (int64_t c = 1; c < squares.classes(); ++c) {
      if (x[squares.Class(item, c, square)] > x[squares.Class(item, label, square)]) label = c;
    }
    const double p = x[squares.Class(item, label, square)];
    for (int64_t k = 0; k < squares.boxes(); ++k) {
      const double objectness = x[squares.Objectness(item, k, square)];
      const double score = kind == "obj" ? objectness : kind == "prob" ? p : objectness * p;
      found.push_back({squares.Predicted(x, item, k, square), label, score});
    }
  }
  std::ranges::stable_sort(found,
                           [](const EvalSquaresScored& a, const EvalSquaresScored& b) { return a.score > b.score; });
  const double nms = attributes.Float("nms");
  if (nms < 0) return found;
  std::vector<EvalSquaresScored> kept;
  for (const EvalSquaresScored& box : found) {
    const auto hides = [&](const EvalSquaresScored& other) { return Iou(other.box, box.box) >= nms; };
    if (std::ranges::none_of(kept, hides)) kept.push_back(box);
  }
  return kept;
}

// Hit and miss.
std::pair<double, double> EvalSquaresJudge(const EvalSquaresScored& box, const std::vector<SquareObject>& objects,
                                           std::vector<bool>& taken, double threshold) {
  double most = -1;
  size_t nearest = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    const double overlap = Iou(box.box, objects[i].object.box);
    if (!(overlap > most)) continue;
    most = overlap;
    nearest = i;
  }
  if (objects.empty() || !(most >= threshold)) return {0, 1};
  if (objects[nearest].difficult) return {0, 0};
  if (taken[nearest]) return {0, 1};
  taken[nearest] = true;
  return {1, 0};
}

void EvalSquaresReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Squares squares("eval_squares", attributes, in[0].type, in[1].type);
  std::ranges::fill(out[0].values, 0.0);
  for (int64_t item = 0; item < squares.items(); ++item) {
    double* top = out[0].values.data() + item * out[0].type.shape[1];
    std::map<int64_t, std::vector<SquareObject>> truths;
    for (const SquareObject& object : squares.Objects(in[1].values, item)) {
      if (!object.difficult) top[object.object.label] += 1;
      truths[object.object.label].push_back(object);
    }
    double* row = top + squares.classes();
    const std::vector<EvalSquaresScored> kept = EvalSquaresPredictions(attributes, squares, in[0].values, item);
    for (int64_t label = 0; label < squares.classes(); ++label) {
      std::vector<bool> taken(truths[label].size(), false);
      for (const EvalSquaresScored& box : kept) {
        if (box.label != label) continue;
        const auto [hit, miss] = EvalSquaresJudge(box, truths[label], taken, attributes.Float("threshold"));
        const double values[] = {static_cast<double>(label), box.score, hit, miss};
        row = std::ranges::copy(values, row).out;
      }
    }
  }
}

std::vector<OpCase> EvalSquaresCases() {
  const auto one = [](const char* name, const char* score, double nms) {
    return OpCase{.name = name,
                  .inputs = {Float32({2, 52}), Float32({2, 28})},
                  .attributes = {{"side", int64_t{2}},
                                 {"classes", int64_t{3}},
                                 {"objects", int64_t{2}},
                                 {"score", std::string(score)},
                                 {"nms", nms}},
                  .low = 0.1,
                  .high = 0.9};
  };
  return {one("product", "multiply", 0.5), one("objectness", "obj", -1), one("probability", "prob", 0.9)};
}

}  // namespace

OpDef EvalSquaresOp() {
  std::vector<AttributeSpec> attributes = SquareAttributes();
  attributes.insert(attributes.end(), {{"score", std::string("multiply"), "obj, prob, or multiply: their product"},
                                       {"threshold", 0.5, "overlap with an object from which a box hits"},
                                       {"nms", -1.0, "overlap from which the lesser box goes; below 0: none goes"}});
  return {.name = "eval_squares",
          .doc =
              "(x [N,S*S*(C+5K)], label [N,7*S*S]) -> [N, C + S*S*K*4]: objects a class, then (label, score, hit, "
              "miss) for each box of YOLO v1, then zeros.",
          .attributes = std::move(attributes),
          .infer = InferEvalSquares,
          .reference = EvalSquaresReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kEvaluates,
          .cases = EvalSquaresCases};
}

}  // namespace moka
