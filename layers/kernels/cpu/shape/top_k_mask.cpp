// top_k_mask over plain float32 tensors: each line's indices are partitioned in scratch of its own.
#include "layers/ops/maths/top_k_mask.h"

#include <algorithm>
#include <numeric>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

class TopKMaskKernel final : public BoundKernel {
 public:
  TopKMaskKernel(const AxisSplit& x, int64_t k) : x_(x), k_(k) {}
  int64_t scratch_bytes() const override { return x_.outer * x_.inner * x_.size * 8; }

  void Run() override {
    ParallelFor(x_.outer * x_.inner, 1 + 1024 / std::max<int64_t>(1, x_.size), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) OneLine(line);
    });
  }

 private:
  // A partition instead of a sort: the first k places hold the k largest in some order. Ties go by index, so that there
  // is one such set.
  void OneLine(int64_t line) const {
    const int64_t first = line / x_.inner * x_.size * x_.inner + line % x_.inner;
    const float* x = in<float>(0) + first;
    auto* y = out<float>(0) + first;
    auto* order = scratch<int64_t>(line * x_.size * 8);
    const int64_t step = x_.inner;
    std::iota(order, order + x_.size, int64_t{0});
    std::nth_element(order, order + (k_ - 1), order + x_.size,
                     [&](int64_t a, int64_t b) { return IsBefore(x[a * step], a, x[b * step], b); });
    for (int64_t i = 0; i < x_.size; ++i) y[order[i] * step] = i < k_ ? 1.0F : 0.0F;
  }

  AxisSplit x_;
  int64_t k_;
};

std::string Refuse(const KernelQuery& query) {
  const std::string refusal = RefuseUnlessFloat32(query);
  return refusal.empty() ? RefuseUnlessPlain(query) : refusal;
}

}  // namespace

KernelDef MokaTopKMask() {
  return {.name = "moka",
          .op = "top_k_mask",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Attributes& a = query.node.attributes;
            const Shape& x = query.inputs[0].shape;
            return std::make_unique<TopKMaskKernel>(SplitAt(x, CanonicalAxis(a.Int("axis"), x, "axis")), a.Int("k"));
          }};
}

}  // namespace moka
