#include "layers/front/vendor/layers.h"

namespace moka {

std::vector<LayerDef> VendorLayers() {
  return {AbsLossLayer(),  DiceCoefLossLayer(), IcNetSubgraphLayer(), SegDataLayer(),
          SparsifyLayer(), YoloV2LossLayer(),   YoloV3LossLayer()};
}

}  // namespace moka
