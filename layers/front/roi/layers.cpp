#include "layers/front/roi/layers.h"

namespace moka {

std::vector<LayerDef> RoiLayers() {
  return {
      MaskPoolingLayer(),
      MaskResizeLayer(),
      MultiRoiPoolingLayer(),
      OftenMtcnnAccuracyLayer(),
      OftenMtcnnClassBridgeLayer(),
      OftenMtcnnEuclideanLossLayer(),
      OftenMtcnnLandMarkLossLayer(),
      OftenMtcnnSoftmaxLossLayer(),
      ProposalLayer(),
      PsroiPoolingLayer(),
      PythonLayer(),
      RoiAlignLayer(),
      RoiAlignmentLayer(),
      RoiMaskPoolingLayer(),
      RoiPoolingLayer(),
      RoiWarpingLayer(),
      RoiWarpingTestLayer(),
  };
}

}  // namespace moka
