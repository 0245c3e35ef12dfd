// Every kernel for GPUs. Each function gives one row; kernels.cpp lists them, the fastest of an op first. A binary
// built without CUDA has none (no_kernels.cpp).
#pragma once

#include <vector>

#include "graph/kernel.h"

namespace moka {

KernelDef CudaCast();
KernelDef CudaConvolutionLoop();
KernelDef CudaConvolutionLoopBackwardData();
KernelDef CudaConvolutionLoopBackwardWeights();
KernelDef CudaGru();
KernelDef CudaGruBackward();
KernelDef CudaGruForward();
KernelDef CudaLstm();
KernelDef CudaLstmBackward();
KernelDef CudaLstmForward();
KernelDef CudaMatmul();
KernelDef CudaSoftmax();
KernelDef CudaSoftmaxBackward();

KernelDef CudnnConvolution();
KernelDef CudnnConvolutionBackwardData();
KernelDef CudnnConvolutionBackwardWeights();

// All of the above.
std::vector<KernelDef> AllCudaKernels();

}  // namespace moka
