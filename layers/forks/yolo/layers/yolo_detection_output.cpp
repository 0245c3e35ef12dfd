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
  return {.type = "YoloDetectionOutput",
          .max_bottoms = 2,
          .build = BuildYoloDetectionOutput,
          .params = {"yolo_detection_output_param"}};
}

}  // namespace moka
