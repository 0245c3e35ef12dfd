// YOLO: an activation, reorganised maps, region losses, detections. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> YoloLayers();

LayerDef AssistedExcitationLayer();
LayerDef BoxDataLayer();
LayerDef EvalDetectionLayer();
LayerDef LaneDataLayer();
LayerDef MishLayer();
LayerDef RegionLayer();
LayerDef RegionLossLayer();
LayerDef ReorgLayer();
LayerDef YoloAnnotatedDataLayer();
LayerDef YoloDetectionOutputLayer();
LayerDef YoloSegLayer();
LayerDef Yolov3Layer();
LayerDef Yolov3DetectionLayer();
LayerDef Yolov3DetectionOutputLayer();

}  // namespace moka
