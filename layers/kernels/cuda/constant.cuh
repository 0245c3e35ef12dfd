// Values that are known when a program is made.
#pragma once

#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"

namespace moka::cuda {

// Values known beforehand, copied from pinned memory, which holds them for as long as the kernel lives.
class ConstantKernel final : public BoundKernel {
 public:
  explicit ConstantKernel(const KernelQuery& query) : values_(AllocatePinned(query.device, query.outputs[0].Bytes())) {}
  float* values() const { return reinterpret_cast<float*>(values_.data()); }
  void Run() override { stream().CopyToDevice(out<std::byte>(0), values_.data(), values_.bytes()); }

 private:
  DeviceBuffer values_;
};

inline KernelDef ConstantRow(const char* op, decltype(KernelDef::make) make) {
  return {.name = "moka", .op = op, .device = DeviceKind::kCuda, .refuse = RefuseUnlessPlain, .make = make};
}

}  // namespace moka::cuda
