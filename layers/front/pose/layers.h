// Poses: heat maps brought to the picture's size and their peaks. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> PoseLayers();

LayerDef ImResizeLayer();
LayerDef NmsLayer();

}  // namespace moka
