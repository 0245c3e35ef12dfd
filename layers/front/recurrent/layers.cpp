#include "layers/front/recurrent/layers.h"

namespace moka {

std::vector<LayerDef> RecurrentLayers() { return {}; }

}  // namespace moka
