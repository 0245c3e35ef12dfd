#include "layers/catalog.h"

#include <algorithm>
#include <iterator>

#include "layers/cpu/kernels.h"
#include "layers/cuda/kernels.h"
#include "layers/ops/ops.h"

namespace moka {

const Catalog& StandardCatalog() {
  static const Catalog catalog(AllOps(), [] {
    std::vector<KernelDef> kernels = AllCpuKernels();
    std::ranges::move(AllCudaKernels(), std::back_inserter(kernels));
    return kernels;
  }());
  return catalog;
}

}  // namespace moka
