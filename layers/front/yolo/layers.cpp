#include "layers/front/yolo/layers.h"

namespace moka {

std::vector<LayerDef> YoloLayers() { return {}; }

}  // namespace moka
