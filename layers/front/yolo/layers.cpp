#include "layers/front/yolo/layers.h"

namespace moka {

std::vector<LayerDef> YoloLayers() {
  return {BoxDataLayer(), EvalDetectionLayer(),       RegionLayer(), RegionLossLayer(),
          ReorgLayer(),   YoloDetectionOutputLayer(), Yolov3Layer(), Yolov3DetectionOutputLayer(),
          YoloSegLayer()};
}

}  // namespace moka
