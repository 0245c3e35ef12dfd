#include "layers/front/yolo/layers.h"

namespace moka {

std::vector<LayerDef> YoloLayers() {
  return {
      BoxDataLayer(), EvalDetectionLayer(),       MishLayer(),   RegionLayer(),          RegionLossLayer(),
      ReorgLayer(),   YoloDetectionOutputLayer(), Yolov3Layer(), Yolov3DetectionLayer(), Yolov3DetectionOutputLayer(),
      YoloSegLayer()};
}

}  // namespace moka
