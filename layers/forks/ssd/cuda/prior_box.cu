// The default boxes, which are known when a program is made.
#include <memory>

#include "layers/forks/ssd/ops/prior_box.h"
#include "layers/kernels/cuda/constant.cuh"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::unique_ptr<Kernel> MakePriorBox(const KernelQuery& query) {
  auto kernel = std::make_unique<cuda::ConstantKernel>(query);
  FillPriorBoxes(query.node.attributes, RealsOut(kernel->values()));
  return kernel;
}

}  // namespace

KernelDef CudaPriorBox() { return cuda::ConstantRow("prior_box", MakePriorBox); }

}  // namespace moka
