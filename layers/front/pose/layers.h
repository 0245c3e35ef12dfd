// Poses: pictures with joints, heat maps brought to the picture's size and their peaks. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> PoseLayers();

LayerDef CpmDataLayer();
LayerDef ImResizeLayer();
LayerDef MaximumLayer();
LayerDef NmsLayer();

}  // namespace moka
