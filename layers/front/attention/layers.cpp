#include "layers/front/attention/layers.h"

namespace moka {

std::vector<LayerDef> AttentionLayers() { return {GeluLayer(), LayerNormLayer(), PositionsLayer()}; }

}  // namespace moka
