#include "layers/front/pose/layers.h"

namespace moka {

std::vector<LayerDef> PoseLayers() { return {CpmDataLayer(), ImResizeLayer(), MaximumLayer(), NmsLayer()}; }

}  // namespace moka
