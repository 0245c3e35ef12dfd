// all_reduce_begin and all_reduce_end: the doors to the ranks' exchange, as work of the program's stream. What they
// take and how it lies is as on the CPU.
#include "layers/kernels/cpu/shape/all_reduce.h"
#include "core/device/device.h"
#include "graph/collectives.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

template <bool kBegins>
class AllReduceKernel final : public BoundKernel {
 public:
  explicit AllReduceKernel(const KernelQuery& query)
      : collectives_(query.collectives),
        key_(query.node.attributes.Int("key")),
        layer_(query.node.origin.layer),
        bytes_(query.outputs[0].Bytes()) {}

  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    if (kBegins && collectives_ != nullptr) collectives_->Announce(key_, layer_, args.outputs[0]);
  }

  // The copy lies between the two: out of what End has delivered, or into what Begin is to send.
  void Run() override {
    if (!kBegins && collectives_ != nullptr) collectives_->End(key_, stream());
    if (in<std::byte>(0) != out<std::byte>(0)) stream().CopyOnDevice(out<std::byte>(0), in<std::byte>(0), bytes_);
    if (kBegins && collectives_ != nullptr) collectives_->Begin(key_, stream());
  }

 private:
  Collectives* collectives_;
  int64_t key_;
  std::string layer_;
  int64_t bytes_;
};

template <bool kBegins>
KernelDef OnGpu(KernelDef row) {
  row.device = DeviceKind::kCuda;
  row.make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
    return std::make_unique<AllReduceKernel<kBegins>>(query);
  };
  return row;
}

}  // namespace

KernelDef CudaAllReduceBegin() { return OnGpu<true>(MokaAllReduceBegin()); }
KernelDef CudaAllReduceEnd() { return OnGpu<false>(MokaAllReduceEnd()); }

}  // namespace moka
