// Layers of optical flow nets, alphabetical.
#pragma once

#include "layers/layer.h"

namespace moka {

LayerDef AccumLayer();
LayerDef ChannelNormLayer();
LayerDef Correlation1DLayer();
LayerDef CorrelationLayer();
LayerDef DownsampleLayer();
LayerDef MeanLayer();
LayerDef ResampleLayer();

}  // namespace moka
