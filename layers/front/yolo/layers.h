// YOLO: reorganised maps, region losses, detections. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> YoloLayers();

}  // namespace moka
