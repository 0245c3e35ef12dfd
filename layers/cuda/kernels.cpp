#include "layers/cuda/kernels.h"

namespace moka {

std::vector<KernelDef> AllCudaKernels() {
  return {
      CudaCast(),
      CudnnConvolution(),
      CudaConvolutionLoop(),
      CudnnConvolutionBackwardData(),
      CudaConvolutionLoopBackwardData(),
      CudnnConvolutionBackwardWeights(),
      CudaConvolutionLoopBackwardWeights(),
      CudaGru(),
      CudaGruBackward(),
      CudaGruForward(),
      CudaLstm(),
      CudaLstmBackward(),
      CudaLstmForward(),
      CudaMatmul(),
      CudaSoftmax(),
      CudaSoftmaxBackward(),
  };
}

}  // namespace moka
