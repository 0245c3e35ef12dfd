// EvalDetection (Intel): counts for the average precision of YOLO v2 (layers/ops/yolo/eval_detection.cpp). Published
// nets name the images as a third bottom, which the fork does not read.
#include "core/text.h"
#include "layers/front/yolo/fields.h"
#include "layers/front/yolo/layers.h"

namespace moka {
namespace {

std::string ScoreName(EvalDetectionParameter::ScoreType type) {
  switch (type) {
    case EvalDetectionParameter::OBJ: return "obj";
    case EvalDetectionParameter::PROB: return "prob";
    case EvalDetectionParameter::MULTIPLY: break;
  }
  return "multiply";
}

void Build(LayerBuilder& l) {
  const EvalDetectionParameter& p = l.param().eval_detection_param();
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

}  // namespace

LayerDef EvalDetectionLayer() {
  return {
      .type = "EvalDetection",
      .doc =
          "From a map [N, num_object*(5+num_class), H, W] of YOLO v2 and rows of labels [1,1,M,8] the top "
          "[N, num_class + H W num_object 4]: the objects of each class, then (label, score, hit, miss) for each "
          "box that nms leaves, by class and score, then zeros. A box hits an object of its class overlapped by "
          "threshold or more that is not taken; if it is taken, or the image has none of the class, it misses. A third "
          "bottom is not read. No gradient.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .build = Build};
}

}  // namespace moka
