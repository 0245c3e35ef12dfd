// YoloDetectionOutput: boxes from the maps of YOLO v2 (eric612's port). The fork gives as many rows as there are boxes,
// all with image 0; here the top has a row for every anchor, unused ones -1, and each image is looked at alone.
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildYoloDetectionOutput(LayerBuilder& l) {
  const YoloDetectionOutputParameter& p = l.param().yolo_detection_output_param();
  l.Check(p.num_classes() >= 1, "yolo_detection_output_param.num_classes", "num_classes must be at least 1");
  l.Check(p.coords() == 4, "yolo_detection_output_param.coords", StrCat("a box has 4 coordinates, found ", p.coords()));
  const Doubles biases = AnchorsOf(l, "yolo_detection_output_param.biases", p.biases(), p.num_box());
  Doubles sizes;
  for (int i = 0; i < l.bottom_count(); ++i) {
    CheckMap(l, i, p.num_box(), int64_t{5} + p.num_classes());
    for (size_t k = 0; k < biases.size(); ++k) {
      sizes.push_back(biases[k] / static_cast<double>(l.shape(i)[k % 2 == 0 ? 3 : 2]));
    }
  }
  l.SetTop(0, l.b().Add1("yolo_detections", l.bottoms(),
                         {{"scores", std::string("softmax")},
                          {"classes", int64_t{p.num_classes()}},
                          {"boxes", int64_t{p.num_box()}},
                          {"anchors", sizes},
                          {"confidence",
                           Finite(l, "yolo_detection_output_param.confidence_threshold", p.confidence_threshold())},
                          {"nms", Finite(l, "yolo_detection_output_param.nms_threshold", p.nms_threshold())}}));
}

}  // namespace

LayerDef YoloDetectionOutputLayer() {
  return {
      .type = "YoloDetectionOutput",
      .doc =
          "Boxes from one or two maps [N, num_box*(5+num_classes), H, W] of YOLO v2, anchors `biases` in cells: the "
          "best class of each anchor where objectness times probability is at least confidence_threshold, less "
          "what a better box of any class overlaps by nms_threshold or more. The top [1,1,K,7], K the number of "
          "all anchors, has rows (image, label from 1, score, left, top, right, bottom), image by image and best "
          "first; unused rows are -1. No gradient.",
      .max_bottoms = 2,
      .build = BuildYoloDetectionOutput,
      .page = {
          .params = {"yolo_detection_output_param"},
          .formula = "With s the sigmoid, an anchor (a, b) of `biases` in cell (row, column) of a map H x W has "
                     "the box with centre `((column + s(x)) / W, (row + s(y)) / H)` and sides `(exp(w) a / W, "
                     "exp(h) b / H)`, the class of the highest softmax p and the score s(o) p. Those of at least "
                     "confidence_threshold (default 0.01) are looked at from the highest score on, all maps and "
                     "classes of an image together: a box goes if its intersection over union with one kept "
                     "before is nms_threshold (default 0.45) or more.\n\nThe top [1,1,K,7], K = N times the "
                     "anchors of all cells and maps, has rows (image, label from 1, score, left, top, right, "
                     "bottom) as parts of the image; unused rows are -1.",
          .gradient = "None: no bottom gets one.",
          .source = "eric612's Caffe port of YOLO v2 (Redmon, Farhadi, arXiv 1612.08242). The fork gives as many "
                    "rows as there are boxes, all with image 0; here the top has a row for every anchor, unused "
                    "ones -1, and each image is looked at alone. side and label_map_file are not used.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 14 dim: 3 dim: 3 } } }
layer {
  name: "found"
  type: "YoloDetectionOutput"
  bottom: "map"
  top: "found"
  yolo_detection_output_param {
    num_classes: 2
    num_box: 2
    biases: 1 biases: 1.5
    biases: 2.5 biases: 1
    confidence_threshold: 0.2
  }
})"}};
}

}  // namespace moka
