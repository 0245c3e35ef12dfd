#include "layers/front/segmentation/layers.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers() { return {}; }

}  // namespace moka
