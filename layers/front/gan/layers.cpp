#include "layers/front/gan/layers.h"

namespace moka {

std::vector<LayerDef> GanLayers() { return {GanLossLayer(), RandomNoiseLayer()}; }

}  // namespace moka
