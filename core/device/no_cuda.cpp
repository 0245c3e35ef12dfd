// GPUs in a binary that was built without CUDA: none, and whoever asks for one is told.
#include "core/device/device_backend.h"

namespace moka {
namespace {

[[noreturn]] void Refuse() {
  throw Error(ErrorKind::kUnavailable, {}, "this moka was built without CUDA",
              "install a CUDA toolkit and configure with -DMOKA_CUDA=ON");
}

}  // namespace

std::string CudaRuntime() { return {}; }
CudaFacts FindCuda() { return {.driver = {}, .missing = "built without CUDA", .gpus = {}}; }
std::unique_ptr<Event> MakeCudaEvent(int /*index*/) { Refuse(); }
std::unique_ptr<Stream> MakeCudaStream(int /*index*/) { Refuse(); }
DeviceBuffer AllocateCudaPinned(int /*index*/, int64_t /*bytes*/) { Refuse(); }

}  // namespace moka
