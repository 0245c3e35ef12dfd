#include "layers/front/pose/layers.h"

namespace moka {

std::vector<LayerDef> PoseLayers() { return {ImResizeLayer(), NmsLayer()}; }

}  // namespace moka
