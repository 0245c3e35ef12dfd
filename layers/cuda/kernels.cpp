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
      CudaConcat(),
      CudaEmbed(),
      CudaEmbedBackward(),
      CudaExpand(),
      CudaFilterIndex(),
      CudaFlip(),
      CudaFull(),
      CudaHardExampleMask(),
      CudaLabelMask(),
      CudaPoolAverage(),
      CudaPoolAverageBackward(),
      CudaPoolMax(),
      CudaPoolMaxBackward(),
      CudaPoolMaxForward(),
      CudaPoolMaxMask(),
      CudaPoolStochastic(),
      CudaReindex(),
      CudaReindexBackward(),
      CudaReorder(),
      CudaSlice(),
      CudaSoftmax(),
      CudaSoftmaxBackward(),
      CudaTable(),
      CudaTakeRows(),
      CudaTakeRowsBackward(),
      CudaTopKMask(),
      CudaTranspose(),
  };
}

}  // namespace moka
