// Yolov3DetectionOutput: boxes from the maps of YOLO v3 (eric612's port); rows as in YoloDetectionOutput. The fork's
// correction for letterboxed images compares a map with itself and so changes nothing; it is left out. Yolov3Detection
// is yuqj1991's layer of the same meaning.
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Widths and heights of each map's anchors as parts of the image.
Doubles SizesOf(const LayerBuilder& l, int64_t boxes) {
  const Yolov3DetectionOutputParameter& p = l.param().yolov3_detection_output_param();
  const Doubles biases = AnchorsOf(l, "yolov3_detection_output_param.biases", p.biases(), -1);
  const int64_t maps = l.bottom_count();
  l.Check(p.mask_size() == maps * boxes, "yolov3_detection_output_param.mask",
          StrCat("mask must name ", boxes, " anchors (num_box) for each of ", maps, " maps, found ", p.mask_size()));
  l.Check(p.anchors_scale_size() == maps, "yolov3_detection_output_param.anchors_scale",
          StrCat("anchors_scale must be given for each of ", maps, " maps, found ", p.anchors_scale_size()));
  Doubles sizes;
  for (int i = 0; i < p.mask_size(); ++i) {
    const size_t anchor = p.mask(i);
    l.Check(2 * anchor < biases.size(), "yolov3_detection_output_param.mask",
            StrCat("mask ", anchor, " is none of the ", biases.size() / 2, " anchors of biases"));
    const int map = static_cast<int>(i / boxes);
    const double cell = p.anchors_scale(map);
    l.Check(cell >= 1, "yolov3_detection_output_param.anchors_scale", "anchors_scale must be at least 1");
    sizes.push_back(biases[2 * anchor] / (cell * static_cast<double>(l.shape(map)[3])));
    sizes.push_back(biases[2 * anchor + 1] / (cell * static_cast<double>(l.shape(map)[2])));
  }
  return sizes;
}

void BuildWithNms(LayerBuilder& l, float nms) {
  const Yolov3DetectionOutputParameter& p = l.param().yolov3_detection_output_param();
  const int64_t boxes = p.num_box();
  l.Check(p.num_classes() >= 1, "yolov3_detection_output_param.num_classes", "num_classes must be at least 1");
  l.Check(boxes >= 1, "yolov3_detection_output_param.num_box", "num_box must be at least 1");
  l.Check(p.mask_group_num() == static_cast<uint32_t>(l.bottom_count()), "yolov3_detection_output_param.mask_group_num",
          StrCat("mask_group_num must be the number of bottoms, ", l.bottom_count(), ", found ", p.mask_group_num()));
  for (int i = 0; i < l.bottom_count(); ++i) {
    CheckMap(l, i, boxes, int64_t{p.gaussian_box() ? 9 : 5} + p.num_classes());
  }
  l.SetTop(0, l.b().Add1("yolo_detections", l.bottoms(),
                         {{"scores", std::string("sigmoid")},
                          {"classes", int64_t{p.num_classes()}},
                          {"boxes", boxes},
                          {"anchors", SizesOf(l, boxes)},
                          {"confidence",
                           Finite(l, "yolov3_detection_output_param.confidence_threshold", p.confidence_threshold())},
                          {"nms", Finite(l, "yolov3_detection_output_param.nms_threshold", nms)},
                          {"gaussian", p.gaussian_box()}}));
}

void BuildYolov3DetectionOutput(LayerBuilder& l) {
  BuildWithNms(l, l.param().yolov3_detection_output_param().nms_threshold());
}

void BuildDetection(LayerBuilder& l) {
  constexpr float kNms = 0.4F;
  const Yolov3DetectionOutputParameter& p = l.param().yolov3_detection_output_param();
  l.Check(!p.gaussian_box(), "yolov3_detection_output_param.gaussian_box", "Yolov3Detection has no gaussian_box");
  BuildWithNms(l, p.has_nms_threshold() ? p.nms_threshold() : kNms);
}

}  // namespace

LayerDef Yolov3DetectionOutputLayer() {
  return {
      .type = "Yolov3DetectionOutput",
      .doc =
          "Boxes from maps [N, num_box*(5+num_classes), H, W] of YOLO v3, mask_group_num of them: biases are all "
          "anchors in pixels, mask names num_box of them a map, anchors_scale is the side of each map's cells in "
          "pixels. Every class of an anchor whose objectness times probability is above confidence_threshold, less "
          "what a better box of any class overlaps by nms_threshold or more. gaussian_box: maps are [N, "
          "num_box*(9+num_classes), H, W], each of x, y, w, h followed by its uncertainty. Rows as in "
          "YoloDetectionOutput. No gradient.",
      .max_bottoms = 16,
      .build = BuildYolov3DetectionOutput,
      .page = {
          .params = {"yolov3_detection_output_param"},
          .formula = "With s the sigmoid, the anchor (a, b) pixels that `mask` names, in cell (row, column) of a map "
                     "H x W whose cells have S = anchors_scale pixels, has the box with centre `((column + s(x)) / W, "
                     "(row + s(y)) / H)`, sides `(exp(w) a / (W S), exp(h) b / (H S))` and for each class c the score "
                     "`s(o) s(c)`. With gaussian_box the channels are x, y, w, h, each followed by its uncertainty, "
                     "and the score is multiplied by 1 - the mean of the four uncertainties' sigmoids.\n\nScores "
                     "above confidence_threshold (default 0.01) are looked at from the highest on, all maps and "
                     "classes of an image together: a box goes if its intersection over union with one kept before is "
                     "nms_threshold (default 0.45) or more, so at most one class of an anchor stays. The top "
                     "[1,1,K,7], K = N times the anchors of all cells and maps, has rows (image, label from 1, score, "
                     "left, top, right, bottom) as parts of the image; unused rows are -1.",
          .gradient = "None: no bottom gets one.",
          .source = "eric612's Caffe port of YOLO v3 (Redmon, Farhadi, arXiv 1804.02767); gaussian_box is Choi et "
                    "al., arXiv 1904.04620. The fork gives as many rows as there are boxes; here the top has a row "
                    "for every anchor, unused ones -1. The fork's correction for letterboxed images compares a map "
                    "with itself and so changes nothing; it is left out.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 14 dim: 2 dim: 2 } } }
layer { name: "fine" type: "Input" top: "fine" input_param { shape { dim: 2 dim: 14 dim: 4 dim: 4 } } }
layer {
  name: "found"
  type: "Yolov3DetectionOutput"
  bottom: "map"
  bottom: "fine"
  top: "found"
  yolov3_detection_output_param {
    num_classes: 2
    num_box: 2
    mask_group_num: 2
    biases: 10 biases: 14 biases: 23 biases: 27 biases: 37 biases: 58 biases: 81 biases: 82
    mask: 2 mask: 3 mask: 0 mask: 1
    anchors_scale: 32 anchors_scale: 16
    confidence_threshold: 0.3
  }
})"}};
}

LayerDef Yolov3DetectionLayer() {
  return {
      .type = "Yolov3Detection",
      .doc =
          "Yolov3DetectionOutput under another name, without gaussian_box and with a default nms_threshold of 0.4: "
          "boxes from maps [N, num_box*(5+num_classes), H, W] as rows [1,1,K,7] of image, label from 1, score and "
          "corners; unused rows are -1.",
      .max_bottoms = 16,
      .build = BuildDetection,
      .page = {
          .params = {"yolov3_detection_output_param"},
          .formula = "As Yolov3DetectionOutput; nms_threshold is 0.4 by default.",
          .gradient = "None: no bottom gets one.",
          .source = "yuqj1991's Caffe, Yolov3DetectionLayer, after YOLO v3 (Redmon, Farhadi, arXiv 1804.02767). It is "
                    "made for one image: of a batch it suppresses all images' boxes together and calls all of them "
                    "image 0. Here each image is looked at alone and has its number.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 1 dim: 12 dim: 2 dim: 2 } } }
layer {
  name: "found"
  type: "Yolov3Detection"
  bottom: "map"
  top: "found"
  yolov3_detection_output_param {
    num_classes: 1
    num_box: 2
    mask_group_num: 1
    biases: 10 biases: 14 biases: 23 biases: 27
    mask: 0 mask: 1
    anchors_scale: 32
  }
})"}};
}

}  // namespace moka
