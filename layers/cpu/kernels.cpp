#include "layers/cpu/kernels.h"

namespace moka {

std::vector<KernelDef> AllCpuKernels() {
  return {
      MokaBatchNorm(),
      OnednnBatchNorm(),
      MokaBatchNormBackward(),
      OnednnBatchNormBackward(),
      OnednnConcat(),
      OnednnConvolution(),
      OnednnConvolutionBackwardData(),
      OnednnConvolutionBackwardWeights(),
      OnednnLrn(),
      OnednnLrnBackward(),
      OnednnMatmul(),
      OnednnPoolAverage(),
      OnednnPoolAverageBackward(),
      OnednnPoolMax(),
      MokaPoolMax(),
      OnednnPoolMaxBackward(),
      MokaPoolMaxBackward(),
      OnednnReorder(),
      OnednnSoftmax(),
      OnednnSoftmaxBackward(),
  };
}

}  // namespace moka
