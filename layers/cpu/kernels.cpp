#include "layers/cpu/kernels.h"

namespace moka {

std::vector<KernelDef> AllCpuKernels() {
  return {
      MokaAccuracy(),
      MokaArgmax(),
      OnednnBatchNorm(),
      MokaBatchNorm(),
      OnednnBatchNormBackward(),
      MokaBatchNormBackward(),
      MokaCast(),
      MokaConcat(),
      OnednnConcat(),
      OnednnConvolution(),
      OnednnConvolutionBackwardData(),
      OnednnConvolutionBackwardWeights(),
      MokaDetectionEvaluate(),
      MokaDetectionOutput(),
      MokaExpand(),
      MokaFull(),
      OnednnLrn(),
      MokaLrn(),
      OnednnLrnBackward(),
      MokaLrnBackward(),
      OnednnMatmul(),
      MokaMultiboxMatch(),
      MokaPointwise(),
      OnednnPoolAverage(),
      MokaPoolAverage(),
      OnednnPoolAverageBackward(),
      MokaPoolAverageBackward(),
      OnednnPoolMax(),
      MokaPoolMax(),
      OnednnPoolMaxBackward(),
      MokaPoolMaxBackward(),
      MokaPoolMaxMask(),
      MokaPriorBox(),
      MokaReduceSum(),
      OnednnReorder(),
      MokaSlice(),
      OnednnSoftmax(),
      OnednnSoftmaxBackward(),
      MokaSoftmaxLoss(),
      MokaSoftmaxLossBackward(),
      MokaTranspose(),
  };
}

}  // namespace moka
