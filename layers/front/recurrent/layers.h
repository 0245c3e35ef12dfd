// Recurrent layers, unrolled or fused, and embeddings. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> RecurrentLayers();

}  // namespace moka
