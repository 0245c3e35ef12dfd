#include "layers/cuda/kernels.h"

namespace moka {

std::vector<KernelDef> AllCudaKernels() { return {}; }

}  // namespace moka
