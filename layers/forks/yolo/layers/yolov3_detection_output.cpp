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
  return {.type = "Yolov3DetectionOutput",
          .max_bottoms = 16,
          .build = BuildYolov3DetectionOutput,
          .params = {"yolov3_detection_output_param"}};
}

LayerDef Yolov3DetectionLayer() {
  return {.type = "Yolov3Detection",
          .max_bottoms = 16,
          .build = BuildDetection,
          .params = {"yolov3_detection_output_param"}};
}

}  // namespace moka
