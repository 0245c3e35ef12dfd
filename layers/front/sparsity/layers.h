// Layers of networks that are made sparse or quantised while they train.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef DnsConvolutionLayer();
LayerDef DnsInnerProductLayer();
LayerDef InqConvolutionLayer();
LayerDef InqInnerProductLayer();

std::vector<LayerDef> SparsityLayers();

}  // namespace moka
