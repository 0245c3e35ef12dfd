#include "layers/front/detectnet/layers.h"

namespace moka {

std::vector<LayerDef> DetectNetLayers() { return {DetectNetTransformationLayer()}; }

}  // namespace moka
