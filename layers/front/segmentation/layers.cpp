#include "layers/front/segmentation/layers.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers() {
  return {BnLayer(),          DenseImageDataLayer(), ImageSegDataLayer(), InterpLayer(),
          SegAccuracyLayer(), UnpoolingLayer(),      UpsampleLayer()};
}

}  // namespace moka
