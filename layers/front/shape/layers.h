// Layers that move, crop, reorder or select. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef AutoCropLayer();
LayerDef BatchReindexLayer();
LayerDef CropLayer();
LayerDef FilterLayer();
LayerDef FlipLayer();
LayerDef Im2colLayer();
LayerDef PermuteLayer();
LayerDef SppLayer();
LayerDef ShuffleChannelLayer();

std::vector<LayerDef> ShapeLayers();

}  // namespace moka
