// Choosing by index, label or loss over plain float32 tensors: rows by index and their sum back, masks of labels and of
// hard examples, the indices a selector keeps, mirrored axes and written tables.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements

std::string Refuse(const KernelQuery& query) {
  for (const auto& types : {query.inputs, query.outputs}) {
    for (const TensorType& type : types) {
      if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
    }
  }
  return RefuseUnlessPlain(query);
}

// A kernel that reads whole numbers in [0, limit) and says when one is wrong.
class IndexKernel : public BoundKernel {
 public:
  IndexKernel(const Attributes& attributes, std::string what, int64_t limit)
      : what_(std::move(what)), rule_{limit, attributes.Bool("has_ignore"), attributes.Int("ignore_label")} {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t at = std::exchange(wrong_at_, -1);
    if (at < 0) return {};
    return WrongNumberText(what_, rule_, at, double{wrong_value_});
  }

 protected:
  int64_t limit() const { return rule_.classes; }
  // The number, or a negative one if it counts for nothing.
  int64_t Read(float value) const { return rule_.Read(value); }
  // Keeps the first wrong number for TakeFault.
  void Check(const float* values, int64_t count) {
    for (int64_t i = 0; i < count && wrong_at_ < 0; ++i) {
      if (Read(values[i]) != kWrongLabel) continue;
      wrong_at_ = i;
      wrong_value_ = values[i];
    }
  }

 private:
  std::string what_;
  LabelRule rule_;
  int64_t wrong_at_ = -1;
  float wrong_value_ = 0;
};

// A number that is ignored gives a row of zeros, and so does a wrong one, which is reported.
class ReindexKernel final : public IndexKernel {
 public:
  explicit ReindexKernel(const KernelQuery& query)
      : IndexKernel(query.node.attributes, "row", query.inputs[0].shape[0]),
        count_(query.inputs[1].shape[0]),
        row_(query.inputs[0].shape.Count(1, query.inputs[0].shape.rank())) {}
  void Run() override {
    // One thread looks for the first wrong number before the others copy.
    Check(in<float>(1), count_);
    ParallelFor(count_, 1 + kGrain / std::max<int64_t>(1, row_), [&](int64_t begin, int64_t end, int) {
      for (int64_t m = begin; m < end; ++m) {
        const int64_t row = Read(in<float>(1)[m]);
        float* y = out<float>(0) + m * row_;
        if (row < 0) {
          std::fill_n(y, row_, 0.0F);
        } else {
          std::copy_n(in<float>(0) + row * row_, row_, y);
        }
      }
    });
  }

 private:
  int64_t count_;
  int64_t row_;
};

// Threads share the columns, so that each sum is made by one of them in the order of m.
class ReindexBackwardKernel final : public IndexKernel {
 public:
  explicit ReindexBackwardKernel(const KernelQuery& query)
      : IndexKernel(query.node.attributes, "row", query.outputs[0].shape[0]),
        count_(query.inputs[1].shape[0]),
        row_(query.inputs[0].shape.Count(1, query.inputs[0].shape.rank())) {}
  // The forward has reported wrong indices already.
  bool CanFault() const override { return false; }
  void Run() override {
    const float* dy = in<float>(0);
    auto* dx = out<float>(0);
    ParallelFor(row_, 1 + kGrain / std::max<int64_t>(1, count_), [&](int64_t begin, int64_t end, int) {
      // Each thread clears its own columns, so no barrier is needed.
      for (int64_t r = 0; r < limit(); ++r) std::fill(dx + r * row_ + begin, dx + r * row_ + end, 0.0F);
      for (int64_t m = 0; m < count_; ++m) {
        const int64_t row = Read(in<float>(1)[m]);
        if (row < 0) continue;
        for (int64_t i = begin; i < end; ++i) dx[row * row_ + i] += dy[m * row_ + i];
      }
    });
  }

 private:
  int64_t count_;
  int64_t row_;
};

// Zeros first, then one store a label: a comparison an element would read the label as many times as there are classes.
class LabelMaskKernel final : public IndexKernel {
 public:
  LabelMaskKernel(const Attributes& attributes, const AxisSplit& y) : IndexKernel(attributes, "label", y.size), y_(y) {}
  void Run() override {
    Check(in<float>(0), y_.outer * y_.inner);
    ParallelFor(y_.outer, 1 + kGrain / std::max<int64_t>(1, y_.size * y_.inner), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        float* y = out<float>(0) + o * y_.size * y_.inner;
        std::fill_n(y, y_.size * y_.inner, 0.0F);
        for (int64_t i = 0; i < y_.inner; ++i) {
          const int64_t label = Read(in<float>(0)[o * y_.inner + i]);
          if (label >= 0) y[label * y_.inner + i] = 1;
        }
      }
    });
  }

 private:
  AxisSplit y_;
};

// One thread: N is a few thousand regions at most.
// The order is total (group, NaN, loss, place), so that std::sort gives one result.
class HardExampleMaskKernel final : public BoundKernel {
 public:
  HardExampleMaskKernel(int64_t count, int64_t keep) : count_(count), keep_(keep) {}
  // The examples in order of group, then of falling loss, NaNs last.
  int64_t scratch_bytes() const override { return count_ * 8; }
  void Run() override {
    const float* loss = in<float>(0);
    const float* group = in<float>(1);
    auto* order = scratch<int64_t>();
    for (int64_t i = 0; i < count_; ++i) order[i] = i;
    const auto rank = [&](int64_t i) { return std::isnan(loss[i]) ? -INFINITY : loss[i]; };
    const auto before = [&](int64_t a, int64_t b) {
      const float ga = Group(group[a]);
      const float gb = Group(group[b]);
      if (ga != gb) return ga < gb;
      if (std::isnan(loss[a]) != std::isnan(loss[b])) return std::isnan(loss[b]);
      return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
    };
    std::sort(order, order + count_, before);
    int64_t taken = 0;
    for (int64_t k = 0; k < count_; ++k) {
      const int64_t i = order[k];
      // Each group counts anew.
      if (k == 0 || Group(group[order[k - 1]]) != Group(group[i])) taken = 0;
      const bool marked = Group(group[i]) >= 0 && taken++ < keep_;
      out<float>(0)[i] = marked ? 1.0F : 0.0F;
    }
  }

 private:
  // Negative numbers and NaN are one group: a sort needs an order.
  static float Group(float value) { return value >= 0 ? std::trunc(value) : -1.0F; }

  int64_t count_;
  int64_t keep_;
};

// A running count decides each place, so one thread does it.
class FilterIndexKernel final : public BoundKernel {
 public:
  explicit FilterIndexKernel(int64_t count) : count_(count) {}
  void Run() override {
    const float* selector = in<float>(0);
    auto* y = out<float>(0);
    int64_t kept = 0;
    for (int64_t i = 0; i < count_; ++i) {
      if (selector[i] != 0) y[kept++] = static_cast<float>(i);
    }
    std::fill(y + kept, y + count_, -1.0F);
  }

 private:
  int64_t count_;
};

// Rows are copied whole; only a flip of the last axis turns their elements around.
class FlipKernel final : public BoundKernel {
 public:
  FlipKernel(const Ints& axes, const Shape& shape)
      : rows_(shape.Count(0, std::max(0, shape.rank() - 1))), row_(shape.rank() > 0 ? shape[shape.rank() - 1] : 1) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool flips = std::ranges::find(axes, axis) != axes.end();
      if (axis + 1 < shape.rank()) {
        dims_.push_back({shape[axis], flips});
      } else {
        flips_row_ = flips;
      }
    }
  }
  void Run() override {
    ParallelFor(rows_, 1 + kGrain / std::max<int64_t>(1, row_), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = in<float>(0) + Source(r) * row_;
        float* y = out<float>(0) + r * row_;
        if (flips_row_) {
          std::reverse_copy(x, x + row_, y);
        } else {
          std::copy_n(x, row_, y);
        }
      }
    });
  }

 private:
  struct Dim {
    int64_t size;
    bool flips;
  };

  // The row of x that becomes row r of y.
  int64_t Source(int64_t r) const {
    int64_t source = 0;
    int64_t step = 1;
    for (size_t i = dims_.size(); i-- > 0;) {
      const int64_t at = r % dims_[i].size;
      source += (dims_[i].flips ? dims_[i].size - 1 - at : at) * step;
      step *= dims_[i].size;
      r /= dims_[i].size;
    }
    return source;
  }

  int64_t rows_;
  int64_t row_;
  bool flips_row_ = false;
  std::vector<Dim> dims_;
};

// Values are narrowed once, when the kernel is made.
class TableKernel final : public BoundKernel {
 public:
  explicit TableKernel(const Doubles& values) {
    for (const double value : values) values_.push_back(static_cast<float>(value));
  }
  void Run() override { std::ranges::copy(values_, out<float>(0)); }

 private:
  std::vector<float> values_;
};

template <class T>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<T>(query);
}

}  // namespace

KernelDef MokaFilterIndex() {
  return {.name = "moka",
          .op = "filter_index",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<FilterIndexKernel>(query.inputs[0].shape.Count());
          }};
}

KernelDef MokaFlip() {
  return {
      .name = "moka", .op = "flip", .refuse = Refuse, .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
        return std::make_unique<FlipKernel>(query.node.attributes.Get<Ints>("axes"), query.inputs[0].shape);
      }};
}

KernelDef MokaHardExampleMask() {
  return {.name = "moka",
          .op = "hard_example_mask",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<HardExampleMaskKernel>(query.inputs[0].shape.Count(),
                                                           query.node.attributes.Int("keep"));
          }};
}

KernelDef MokaLabelMask() {
  return {.name = "moka",
          .op = "label_mask",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            const Attributes& a = query.node.attributes;
            const Shape& y = query.outputs[0].shape;
            return std::make_unique<LabelMaskKernel>(a, SplitAt(y, CanonicalAxis(a.Int("axis"), y, "axis")));
          }};
}

KernelDef MokaReindex() { return {.name = "moka", .op = "reindex", .refuse = Refuse, .make = Make<ReindexKernel>}; }

KernelDef MokaReindexBackward() {
  return {.name = "moka", .op = "reindex_backward", .refuse = Refuse, .make = Make<ReindexBackwardKernel>};
}

KernelDef MokaTable() {
  return {
      .name = "moka", .op = "table", .refuse = Refuse, .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
        return std::make_unique<TableKernel>(query.node.attributes.Get<Doubles>("values"));
      }};
}

}  // namespace moka
