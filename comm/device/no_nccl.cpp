// Stands in for comm/device/nccl_all_reduce.cpp where Moka is built without NCCL: the same functions, each a refusal
// that says what to install.
#include "comm/device/nccl_all_reduce.h"
#include "core/error.h"

namespace moka {

std::string MissingNccl(int /*ranks*/) { return "built without NCCL"; }

std::string PlaceOfGpu(const Device& /*device*/, const Communicator& /*communicator*/) { return {}; }

std::unique_ptr<DeviceAllReduce> MakeNcclAllReduce(Communicator& /*communicator*/, std::string /*place*/) {
  throw Error(ErrorKind::kUnavailable, SourcePlace{}, "this moka was built without NCCL, which sums gradients of GPUs",
              "install nccl.h (package libnccl-dev) beside the CUDA toolkit and build again, or take --device=cpu");
}

}  // namespace moka
