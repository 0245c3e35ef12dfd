// EvalDetection (Intel): counts for the average precision of YOLO v2 (layers/forks/yolo/ops/eval_detection.cpp).
// Published nets name the images as a third bottom, which the fork does not read. Without biases it is YOLO v1's layer
// of the same name (layers/forks/yolo/ops/eval_squares.cpp).
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

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
  return {
      .type = "EvalDetection",
      .doc =
          "From a map [N, num_object*(5+num_class), H, W] of YOLO v2 and rows of labels [1,1,M,8] "
          "(image, label from 1, instance, box corners, difficult; image -1: none) the top [N, "
          "num_class + H W num_object 4]: the objects of each class, then (label from 0, score, hit, "
          "miss) for each box that nms leaves, by class and score, then zeros. A box hits an object of "
          "its class overlapped by threshold or more that is not taken; if it is taken, or the image "
          "has none of the class, it misses. A third bottom is not read. No gradient. Without biases the layer is "
          "YOLO v1's, whose bottom 0 is [N, side^2 (num_class + 5 num_object)] and labels [N, 7 side^2].",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .build = BuildEvalDetection,
      .page = {
          .params = {"eval_detection_param"},
          .formula =
              "With s the sigmoid, an anchor of biases (a, b) in cell (row, column) has the box with "
              "centre `((column + s(x)) / W, (row + s(y)) / H)` and sides `(exp(w) a / W, exp(h) b / H)`, "
              "the class of the highest softmax p, and the score s(o) (score_type OBJ), p (PROB) or s(o) p "
              "(MULTIPLY, default). From the highest score on, a box goes if its intersection over union "
              "with one kept before, of any class, is nms or more; those that score below 0.005 have no "
              "row.\n\nFor each image the top [N, C + H W A 4] has the number of objects of each of C "
              "classes, then (label, score, hit, miss) for each box, by class and falling score, then "
              "zeros. A box hits (1, 0) if the object of its class it overlaps most, by threshold (default "
              "0.5) or more, is not taken, and takes it; it misses (0, 1) if that is taken or the image "
              "has no object of the class; else (0, 0). `nms` must be given and A = num_object pairs of "
              "biases, in cells.\n\nWithout biases (YOLO v1) an item has `side^2` squares and planes of one value a "
              "square: num_class scores, num_object objectnesses, then x, y, w, h of each box; with sqrt w and "
              "h are square roots, with constriant x and y places in the square. The labels have planes of "
              "difficult, object and class (from 0), then x, y, w, h a square. Rows and top are as above, but "
              "for: classes and objectness are taken as they are; nms below 0 (the default) keeps every box, "
              "and no score is too low; a box that overlaps none so much misses; an object that is difficult "
              "is not counted and its boxes are (0, 0).",
          .gradient = "None: no bottom gets one.",
          .source =
              "Intel's Caffe, for YOLO v2 (Redmon, Farhadi, arXiv 1612.08242), and yeahkun's caffe-yolo, for YOLO "
              "v1 (arXiv 1506.02640), from which it comes. Published nets name the "
              "images as a third bottom, which the fork does not read, nor does this. With a negative nms, "
              "its default, the fork keeps no box; here that is refused. side, sqrt and constriant are "
              "YOLO v1's alone.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 14 dim: 3 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 8 } } }
layer {
  name: "counts"
  type: "EvalDetection"
  bottom: "map"
  bottom: "label"
  top: "counts"
  eval_detection_param { num_class: 2 num_object: 2 nms: 0.45 biases: 1 biases: 1.5 biases: 2.5 biases: 1 }
})"}};
}

}  // namespace moka
