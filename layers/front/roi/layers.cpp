#include "layers/front/roi/layers.h"

namespace moka {

std::vector<LayerDef> RoiLayers() {
  return {
      MaskPoolingLayer(), MaskResizeLayer(), ProposalLayer(),   PsroiPoolingLayer(),   PythonLayer(),
      RoiAlignLayer(),    RoiPoolingLayer(), RoiWarpingLayer(), RoiWarpingTestLayer(),
  };
}

}  // namespace moka
