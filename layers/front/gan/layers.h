// Layers of generative adversarial nets: one file a type.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef GanLossLayer();
LayerDef RandomNoiseLayer();

// All of this folder.
std::vector<LayerDef> GanLayers();

}  // namespace moka
