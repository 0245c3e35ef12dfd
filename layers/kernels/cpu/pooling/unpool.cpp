// Unpooling, with a mask or over windows, and the transposed maps, over plain float32 planes, one plane a task.
#include <algorithm>
#include <atomic>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/convolution/windows.h"

namespace moka {
namespace {

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

int64_t GrainOf(int64_t elements) { return 1 + 16384 / std::max<int64_t>(elements, 1); }

// Masks that name no place of the plane are a fault of the forward pass: the pooling had another size.
class UnpoolMaxKernel final : public BoundKernel {
 public:
  UnpoolMaxKernel(const Shape& small, const Shape& large, bool backward)
      : planes_(small[0] * small[1]),
        small_(small[2] * small[3]),
        large_(large[2] * large[3]),
        size_(StrCat(large[2], "x", large[3])),
        backward_(backward) {}
  bool CanFault() const override { return !backward_; }
  std::string TakeFault() override {
    const int64_t at = wrong_.exchange(-1);
    if (at < 0) return {};
    return StrCat("mask value ", double{in<float>(1)[at]}, " at index ", at, " is no place of a plane of ", size_,
                  "; the pooling that made the mask had another size");
  }

  void Run() override {
    ParallelFor(planes_, GrainOf(small_ + large_), [this](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) RunPlane(plane);
    });
  }

 private:
  // Where masks of a plane name one place twice, the later pixel wins, as the loop's order is fixed.
  void RunPlane(int64_t plane) {
    const float* x = in<float>(0) + plane * (backward_ ? large_ : small_);
    const float* mask = in<float>(1) + plane * small_;
    auto* y = out<float>(0) + plane * (backward_ ? small_ : large_);
    if (!backward_) std::fill_n(y, large_, 0.0F);
    for (int64_t i = 0; i < small_; ++i) {
      const bool inside = mask[i] >= 0 && mask[i] < static_cast<float>(large_);
      const int64_t place = inside ? static_cast<int64_t>(mask[i]) : 0;
      if (backward_) {
        y[i] = inside ? x[place] : 0.0F;
      } else if (inside) {
        y[place] = x[i];
      } else {
        wrong_ = plane * small_ + i;
      }
    }
  }

  int64_t planes_;
  int64_t small_;
  int64_t large_;
  std::string size_;
  bool backward_;
  std::atomic<int64_t> wrong_ = -1;
};

// One list of (small, large, weight) serves both directions: the gradient of a linear map is its transpose.
class UnpoolKernel final : public BoundKernel {
 public:
  UnpoolKernel(const UnpoolWindows& windows, int64_t planes, bool backward)
      : w_(windows), planes_(planes), backward_(backward) {}

  void Run() override {
    const int64_t small = w_.SmallPlane();
    const int64_t large = w_.LargePlane();
    ParallelFor(planes_, GrainOf(small + large), [this, small, large](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const float* x = in<float>(0) + plane * (backward_ ? large : small);
        auto* y = out<float>(0) + plane * (backward_ ? small : large);
        std::fill_n(y, backward_ ? small : large, 0.0F);
        w_.Visit([&](int64_t i, int64_t j, double weight) {
          const auto [from, to] = backward_ ? std::pair(j, i) : std::pair(i, j);
          y[to] += static_cast<float>(weight) * x[from];
        });
      }
    });
  }

 private:
  UnpoolWindows w_;
  int64_t planes_;
  bool backward_;
};

template <bool kBackward>
std::unique_ptr<Kernel> MakeMax(const KernelQuery& query) {
  const Shape& large = kBackward ? query.inputs[0].shape : query.outputs[0].shape;
  return std::make_unique<UnpoolMaxKernel>(query.inputs[1].shape, large, kBackward);
}

template <bool kBackward>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  const Shape& small = kBackward ? query.outputs[0].shape : query.inputs[0].shape;
  const Shape& large = kBackward ? query.inputs[0].shape : query.outputs[0].shape;
  return std::make_unique<UnpoolKernel>(UnpoolWindows(query.node.attributes, small, large), small[0] * small[1],
                                        kBackward);
}

}  // namespace

KernelDef MokaUnpool() { return {.name = "moka", .op = "unpool", .refuse = Refuse, .make = Make<false>}; }

KernelDef MokaUnpoolBackward() {
  return {.name = "moka", .op = "unpool_backward", .refuse = Refuse, .make = Make<true>};
}

KernelDef MokaUnpoolMax() { return {.name = "moka", .op = "unpool_max", .refuse = Refuse, .make = MakeMax<false>}; }

KernelDef MokaUnpoolMaxBackward() {
  return {.name = "moka", .op = "unpool_max_backward", .refuse = Refuse, .make = MakeMax<true>};
}

}  // namespace moka
