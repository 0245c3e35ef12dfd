#include "layers/catalog.h"

#include "layers/cpu/kernels.h"
#include "layers/ops/ops.h"

namespace moka {

const Catalog& StandardCatalog() {
  static const Catalog catalog(AllOps(), AllCpuKernels());
  return catalog;
}

}  // namespace moka
