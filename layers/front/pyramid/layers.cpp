#include "layers/front/pyramid/layers.h"

namespace moka {

std::vector<LayerDef> PyramidLayers() {
  return {ClassMaskLayer(),       MaskEvaluateLayer(),    MaskTargetLayer(),   PyramidAnchorTargetLayer(),
          PyramidProposalLayer(), PyramidRoiAlignLayer(), RegionOutputLayer(), RegionTargetLayer()};
}

}  // namespace moka
