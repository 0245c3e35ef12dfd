// Segmentation: the BN dialects, unpooling, interpolation, accuracy by class. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers();

}  // namespace moka
