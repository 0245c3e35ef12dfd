// What attention needs beside Caffe's layers. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef GeluLayer();
LayerDef LayerNormLayer();
LayerDef PositionsLayer();

std::vector<LayerDef> AttentionLayers();

}  // namespace moka
