// Three entries in the program's stream: copies to pinned memory, a call of the host function, copies back. An
// exception cannot pass through the stream's thread, so it is kept and told as the kernel's fault.
#include "graph/hosted_kernel.h"

#include <exception>
#include <utility>

#include "core/device/device.h"

namespace moka {
namespace {

class HostedKernel : public Kernel {
 public:
  HostedKernel(std::unique_ptr<Kernel> kernel, const KernelQuery& query)
      : kernel_(std::move(kernel)), device_(query.device) {}

  void Bind(const KernelArgs& args) override {
    stream_ = args.stream;
    inputs_ = OnHost(args.inputs);
    outputs_ = OnHost(args.outputs);
    scratch_ = AllocatePinned(Device{}, kernel_->scratch_bytes());
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    for (const Copy& copy : inputs_) inputs.emplace_back(copy.device.type(), copy.host.data());
    for (const Copy& copy : outputs_) outputs.emplace_back(copy.device.type(), copy.host.data());
    kernel_->Bind({inputs, outputs, scratch_.data()});
  }

  void Run() override {
    for (const Copy& copy : inputs_) {
      stream_->CopyToHost(copy.host.data(), static_cast<const std::byte*>(copy.device.raw()), copy.host.bytes());
    }
    stream_->Call([](void* self) { static_cast<HostedKernel*>(self)->RunOnHost(); }, this);
    for (const Copy& copy : outputs_) {
      stream_->CopyToDevice(static_cast<std::byte*>(copy.device.raw()), copy.host.data(), copy.host.bytes());
    }
  }

  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    if (!failure_.empty()) return std::exchange(failure_, {});
    return kernel_->CanFault() ? kernel_->TakeFault() : std::string();
  }
  std::string_view implementation() const override { return kernel_->implementation(); }

 private:
  struct Copy {
    Tensor device;
    DeviceBuffer host;
  };

  // In a thread of the stream, which nothing may be thrown into.
  void RunOnHost() {
    try {
      kernel_->Run();
    } catch (const std::exception& e) {
      failure_ = e.what();
    }
  }

  std::vector<Copy> OnHost(std::span<const Tensor> tensors) const {
    std::vector<Copy> copies;
    copies.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
      copies.push_back({tensor, AllocatePinned(device_, tensor.type().Bytes())});
    }
    return copies;
  }

  std::unique_ptr<Kernel> kernel_;
  Device device_;
  Stream* stream_ = nullptr;
  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
  DeviceBuffer scratch_;
  std::string failure_;  // of the last run: what a library complained of
};

}  // namespace

std::unique_ptr<Kernel> MakeHostedKernel(std::unique_ptr<Kernel> kernel, const KernelQuery& query) {
  return std::make_unique<HostedKernel>(std::move(kernel), query);
}

}  // namespace moka
