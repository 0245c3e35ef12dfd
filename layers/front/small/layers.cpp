#include "layers/front/small/layers.h"

namespace moka {

std::vector<LayerDef> SmallLayers() {
  return {BReLULayer(),           CombinationLayer(), DivisionLayer(),           L2NormLayer(),    MinReLULayer(),
          NormalizationL2Layer(), OutputDecayLayer(), SpatialTransformerLayer(), SrnnFormatLayer()};
}

}  // namespace moka
