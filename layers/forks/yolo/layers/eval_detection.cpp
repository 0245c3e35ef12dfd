// EvalDetection (Intel): counts for the average precision of YOLO v2 (layers/forks/yolo/ops/eval_detection.cpp).
// Published nets name the images as a third bottom, which the fork does not read. Without biases it is YOLO v1's layer
// of the same name (layers/forks/yolo/ops/eval_squares.cpp).
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

void BuildEvalDetection(LayerBuilder& l) {
  const EvalDetectionParameter& p = l.param().eval_detection_param();
  if (p.biases().empty()) return BuildEvalSquares(l);
  l.Check(p.num_class() >= 1, "eval_detection_param.num_class", "num_class must be at least 1");
  const double nms = Finite(l, "eval_detection_param.nms", p.nms());
  // The fork keeps no box at all when nms is negative, its default.
  l.Check(nms >= 0, "eval_detection_param.nms", "nms must be given, the overlap from which the lesser box goes");
  const Doubles anchors = AnchorsOf(l, "eval_detection_param.biases", p.biases(), p.num_object());
  CheckMap(l, 0, p.num_object(), int64_t{5} + p.num_class());
  l.Check(l.shape(1).Count() % 8 == 0, "bottom[1]",
          StrCat("labels are rows of 8 values [1,1,M,8], found ", l.shape(1).ToString()));
  l.SetTop(0, l.b().Add1("eval_detection", {l.bottom(0), l.bottom(1)},
                         {{"classes", int64_t{p.num_class()}},
                          {"anchors", anchors},
                          {"score", ScoreName(p.score_type())},
                          {"threshold", Finite(l, "eval_detection_param.threshold", p.threshold())},
                          {"nms", nms}}));
}

void NeedsOfEvalDetection(const ShapeReader& reader) {
  const EvalDetectionParameter& p = reader.layer().eval_detection_param();
  if (p.biases().empty()) NeedSquares(reader, p.side());
}

}  // namespace

std::string ScoreName(EvalDetectionParameter::ScoreType type) {
  switch (type) {
    case EvalDetectionParameter::OBJ: return "obj";
    case EvalDetectionParameter::PROB: return "prob";
    case EvalDetectionParameter::MULTIPLY: break;
  }
  return "multiply";
}

LayerDef EvalDetectionLayer() {
  return {.type = "EvalDetection",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .build = BuildEvalDetection,
          .needs = NeedsOfEvalDetection,
          .params = {"eval_detection_param"}};
}

}  // namespace moka
