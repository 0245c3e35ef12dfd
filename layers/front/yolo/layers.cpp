#include "layers/front/yolo/layers.h"

namespace moka {

std::vector<LayerDef> YoloLayers() {
  return {AssistedExcitationLayer(),
          BoxDataLayer(),
          EvalDetectionLayer(),
          LaneDataLayer(),
          MishLayer(),
          RegionLayer(),
          RegionLossLayer(),
          ReorgLayer(),
          YoloAnnotatedDataLayer(),
          YoloDetectionOutputLayer(),
          Yolov3Layer(),
          Yolov3DetectionLayer(),
          Yolov3DetectionOutputLayer(),
          YoloSegLayer()};
}

}  // namespace moka
