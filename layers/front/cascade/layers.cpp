#include "layers/front/cascade/layers.h"

namespace moka {

std::vector<LayerDef> CascadeLayers() {
  return {
      BboxAccuracyLayer(),
      BoxGroupOutputLayer(),
      BoxOutputLayer(),
      CascadeProposalTargetLayer(),
      DecodeBBoxLayer(),
      DetectionAccuracyLayer(),
      DetectionDataLayer(),
      DetectionGroupAccuracyLayer(),
      DetectionGroupLossLayer(),
      DetectionLossLayer(),
      EvalDataLayer(),
      FrcnnAnchorTargetLayer(),
      FrcnnOutputLayer(),
      FrcnnProposalLayer(),
      FrcnnProposalTargetLayer(),
      FrcnnRoiDataLayer(),
      HardMiningLayer(),
      ImageGtDataLayer(),
      ScaleRouteLayer(),
  };
}

}  // namespace moka
