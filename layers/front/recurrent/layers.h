// Recurrent layers, unrolled or fused, and embeddings. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef CaffeLstmLayer();
LayerDef EmbedLayer();
LayerDef EmbedSumLayer();
LayerDef GruLayer();
LayerDef LstmLayer();
LayerDef LstmUnitLayer();
LayerDef RnnLayer();

std::vector<LayerDef> RecurrentLayers();

}  // namespace moka
