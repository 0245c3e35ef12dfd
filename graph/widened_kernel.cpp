// Wraps a float32 kernel: half inputs are converted into its scratch, outputs back. The scratch is the program's, so a
// step allocates nothing.
#include "graph/widened_kernel.h"

#include <algorithm>
#include <utility>

#include "core/half_spans.h"
#include "core/threads/parallel.h"

namespace moka {
namespace {

constexpr int64_t kLine = 64;     // bytes of a cache line
constexpr int64_t kGrain = 8192;  // elements worth a thread

TensorType WidenedType(TensorType type) {
  if (IsHalf(type.dtype)) type.dtype = DType::kFloat32;
  return type;
}

// Bytes of a tensor's copy, in whole cache lines.
int64_t CopyBytes(const TensorType& type) {
  return IsHalf(type.dtype) ? (WidenedType(type).Bytes() + kLine - 1) / kLine * kLine : 0;
}

// A half tensor and its copy, which lies alike.
struct Copy {
  Tensor half;
  float* wide = nullptr;

  void Widen() const {
    const auto* from = static_cast<const uint16_t*>(half.raw());
    ParallelFor(half.type().StoredCount(), kGrain, [&](int64_t begin, int64_t end, int) {
      moka::Widen(half.type().dtype, from + begin, end - begin, wide + begin);
    });
  }
  void Narrow() const {
    auto* to = static_cast<uint16_t*>(half.raw());
    ParallelFor(half.type().StoredCount(), kGrain, [&](int64_t begin, int64_t end, int) {
      moka::Narrow(half.type().dtype, wide + begin, end - begin, to + begin);
    });
  }
};

class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(std::unique_ptr<Kernel> kernel, const KernelQuery& query) : kernel_(std::move(kernel)) {
    for (const TensorType& type : query.inputs) copied_bytes_ += CopyBytes(type);
    for (const TensorType& type : query.outputs) copied_bytes_ += CopyBytes(type);
  }

  void Bind(const KernelArgs& args) override {
    std::byte* at = args.scratch;
    const std::vector<Tensor> inputs = Copied(args.inputs, at, inputs_);
    const std::vector<Tensor> outputs = Copied(args.outputs, at, outputs_);
    kernel_->Bind({inputs, outputs, at});
  }
  void Run() override {
    for (const Copy& copy : inputs_) copy.Widen();
    kernel_->Run();
    for (const Copy& copy : outputs_) copy.Narrow();
  }
  int64_t scratch_bytes() const override { return copied_bytes_ + kernel_->scratch_bytes(); }
  bool CanFault() const override { return kernel_->CanFault(); }
  std::string TakeFault() override { return kernel_->TakeFault(); }
  std::string_view implementation() const override { return kernel_->implementation(); }

 private:
  // The tensors with copies in place of those that are half, which take their memory from `at` on.
  static std::vector<Tensor> Copied(std::span<const Tensor> tensors, std::byte*& at, std::vector<Copy>& copies) {
    std::vector<Tensor> copied;
    for (const Tensor& tensor : tensors) {
      if (!IsHalf(tensor.type().dtype)) {
        copied.push_back(tensor);
        continue;
      }
      copied.emplace_back(WidenedType(tensor.type()), at);
      copies.push_back({tensor, static_cast<float*>(static_cast<void*>(at))});
      at += CopyBytes(tensor.type());
    }
    return copied;
  }

  std::unique_ptr<Kernel> kernel_;
  int64_t copied_bytes_ = 0;
  std::vector<Copy> inputs_;
  std::vector<Copy> outputs_;
};

}  // namespace

bool HasHalf(std::span<const TensorType> types) {
  return std::ranges::any_of(types, [](const TensorType& type) { return IsHalf(type.dtype); });
}

std::vector<TensorType> Widened(std::span<const TensorType> types) {
  std::vector<TensorType> widened;
  widened.reserve(types.size());
  for (const TensorType& type : types) widened.push_back(WidenedType(type));
  return widened;
}

std::unique_ptr<Kernel> MakeWidenedKernel(std::unique_ptr<Kernel> kernel, const KernelQuery& query) {
  return std::make_unique<WidenedKernel>(std::move(kernel), query);
}

}  // namespace moka
