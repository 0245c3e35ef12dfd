#include "layers/front/roi/layers.h"

namespace moka {

std::vector<LayerDef> RoiLayers() { return {}; }

}  // namespace moka
