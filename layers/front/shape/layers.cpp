#include "layers/front/shape/layers.h"

namespace moka {

std::vector<LayerDef> ShapeLayers() { return {}; }

}  // namespace moka
