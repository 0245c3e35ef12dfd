// Small layers that the nets of single papers have: norms, bounds, transformers of pictures, parts of pictures. One
// file a kind, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef BReLULayer();
LayerDef CombinationLayer();
LayerDef DivisionLayer();
LayerDef L2NormLayer();
LayerDef MinReLULayer();
LayerDef NormalizationL2Layer();
LayerDef OutputDecayLayer();
LayerDef SpatialTransformerLayer();
LayerDef SrnnFormatLayer();

std::vector<LayerDef> SmallLayers();

}  // namespace moka
