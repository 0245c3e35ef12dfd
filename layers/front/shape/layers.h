// Layers that move, crop, reorder or select. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> ShapeLayers();

}  // namespace moka
