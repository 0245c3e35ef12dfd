// Rows of a table by index and their gradient, over plain float32 tensors. The gradient is split by columns: each
// thread adds the rows in order to its own columns, so sums do not depend on the threads.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/maths/labels.h"

namespace moka {
namespace {

struct Table {
  int64_t count = 0;  // indices
  int64_t rows = 0;
  int64_t columns = 0;
};

// The row an index names, or a negative number.
int64_t RowOf(float index, int64_t rows) { return ReadLabel(false, 0, double{index}, rows); }

// A wrong index makes its row NaN; when all rows are there one thread looks for the first wrong index to report.
class EmbedKernel final : public BoundKernel {
 public:
  explicit EmbedKernel(const Table& table) : t_(table) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t at = std::exchange(wrong_at_, -1);
    if (at < 0) return {};
    return WrongRowText(t_.rows, at, double{wrong_value_});
  }

  void Run() override {
    const auto* index = in<float>(0);
    const auto* w = in<float>(1);
    auto* y = out<float>(0);
    ParallelFor(t_.count, 1 + 4096 / std::max<int64_t>(1, t_.columns), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = RowOf(index[i], t_.rows);
        float* to = y + i * t_.columns;
        if (row < 0) {
          std::fill_n(to, t_.columns, std::numeric_limits<float>::quiet_NaN());
        } else {
          std::copy_n(w + row * t_.columns, t_.columns, to);
        }
      }
    });
    for (int64_t i = 0; i < t_.count && wrong_at_ < 0; ++i) {
      if (RowOf(index[i], t_.rows) >= 0) continue;
      wrong_at_ = i;
      wrong_value_ = index[i];
    }
  }

 private:
  Table t_;
  int64_t wrong_at_ = -1;
  float wrong_value_ = 0;
};

class EmbedBackwardKernel final : public BoundKernel {
 public:
  explicit EmbedBackwardKernel(const Table& table) : t_(table) {}

  void Run() override {
    const auto* index = in<float>(0);
    const auto* dy = in<float>(1);
    auto* dw = out<float>(0);
    ParallelFor(t_.rows * t_.columns, 1 << 14,
                [&](int64_t begin, int64_t end, int) { std::fill(dw + begin, dw + end, 0.0F); });
    // A cache line of columns at least; below some ten thousand additions threads cost more than they save.
    const int64_t grain = std::max<int64_t>(16, 1 + 16384 / std::max<int64_t>(1, t_.count));
    ParallelFor(t_.columns, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = 0; i < t_.count; ++i) {
        const int64_t row = RowOf(index[i], t_.rows);
        if (row < 0) continue;
        const float* from = dy + i * t_.columns;
        float* to = dw + row * t_.columns;
        for (int64_t j = begin; j < end; ++j) to[j] += from[j];
      }
    });
  }

 private:
  Table t_;
};

std::string Refuse(const KernelQuery& query) {
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  return RefuseUnlessPlain(query);
}

}  // namespace

KernelDef MokaEmbed() {
  return {
      .name = "moka", .op = "embed", .refuse = Refuse, .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
        const Shape& w = query.inputs[1].shape;
        return std::make_unique<EmbedKernel>(Table{query.inputs[0].shape.Count(), w[0], w[1]});
      }};
}

KernelDef MokaEmbedBackward() {
  return {.name = "moka",
          .op = "embed_backward",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Shape& w = query.outputs[0].shape;
            return std::make_unique<EmbedBackwardKernel>(Table{query.inputs[0].shape.Count(), w[0], w[1]});
          }};
}

}  // namespace moka
