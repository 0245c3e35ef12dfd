#include "layers/front/ssd/layers.h"

namespace moka {

std::vector<LayerDef> SsdLayers() { return {}; }

}  // namespace moka
