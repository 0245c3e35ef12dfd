// Every CPU kernel. Each function gives one row; kernels.cpp lists them, the fastest of an op first.
#pragma once

#include <vector>

#include "graph/kernel.h"

namespace moka {

KernelDef MokaBatchNorm();
KernelDef MokaBatchNormBackward();
KernelDef MokaPoolMax();
KernelDef MokaPoolMaxBackward();
KernelDef OnednnBatchNorm();
KernelDef OnednnBatchNormBackward();
KernelDef OnednnConcat();
KernelDef OnednnConvolution();
KernelDef OnednnConvolutionBackwardData();
KernelDef OnednnConvolutionBackwardWeights();
KernelDef OnednnLrn();
KernelDef OnednnLrnBackward();
KernelDef OnednnMatmul();
KernelDef OnednnPoolAverage();
KernelDef OnednnPoolAverageBackward();
KernelDef OnednnPoolMax();
KernelDef OnednnPoolMaxBackward();
KernelDef OnednnReorder();
KernelDef OnednnSoftmax();
KernelDef OnednnSoftmaxBackward();

// All of the above.
std::vector<KernelDef> AllCpuKernels();

}  // namespace moka
