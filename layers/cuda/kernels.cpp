#include "layers/cuda/kernels.h"

namespace moka {

std::vector<KernelDef> AllCudaKernels() {
  return {
      CudaCast(),
      CudaSoftmax(),
      CudaSoftmaxBackward(),
  };
}

}  // namespace moka
