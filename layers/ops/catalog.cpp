#include "layers/ops/ops.h"

namespace moka {

std::vector<OpDef> AllOps() {
  return {
      AccuracyOp(),
      ArgmaxOp(),
      BatchNormBackwardOp(),
      BatchNormOp(),
      CastOp(),
      ConcatOp(),
      ConvolutionBackwardDataOp(),
      ConvolutionBackwardWeightsOp(),
      ConvolutionOp(),
      ExpandOp(),
      FullOp(),
      LrnBackwardOp(),
      LrnOp(),
      MatmulOp(),
      PointwiseOp(),
      PoolAverageBackwardOp(),
      PoolAverageOp(),
      PoolMaxBackwardOp(),
      PoolMaxMaskOp(),
      PoolMaxOp(),
      ReduceSumOp(),
      ReorderOp(),
      ReshapeOp(),
      SliceOp(),
      SoftmaxBackwardOp(),
      SoftmaxLossBackwardOp(),
      SoftmaxLossOp(),
      SoftmaxOp(),
      StopGradientOp(),
      TransposeOp(),
  };
}

}  // namespace moka
