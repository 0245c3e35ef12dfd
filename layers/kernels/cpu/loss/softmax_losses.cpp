// Softmax with a loss for each label, its gradient, and the counts of segmentation's metrics, over plain float32
// tensors seen as [outer, classes, inner] (formulas in layers/ops/loss/softmax_losses.cpp and
// class_counts.cpp).
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/loss/softmax_row.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = RefuseUnlessFloat32(query); !reason.empty()) return reason;
  return RefuseUnlessPlain(query);
}

AxisSplit SplitOf(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  return SplitAt(x, CanonicalAxis(query.node.attributes.Int("axis"), x, "axis"));
}

// Visits labels in parallel and remembers a wrong one.
// Any one of several wrong labels is reported: threads write the same atomic, and the run fails in any case.
class LineKernel : public BoundKernel {
 public:
  explicit LineKernel(const AxisSplit& x) : x_(x) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t line = wrong_.exchange(-1);
    if (line < 0) return {};
    return WrongLabelText({.classes = x_.size}, line, double{in<float>(1)[line]});
  }

 protected:
  const AxisSplit& x() const { return x_; }
  int64_t Lines() const { return x_.outer * x_.inner; }
  int64_t First(int64_t line) const { return line / x_.inner * x_.size * x_.inner + line % x_.inner; }
  void FoundWrong(int64_t line) { wrong_ = line; }
  template <class F>
  void ForLines(F&& f) {
    ParallelFor(Lines(), 1 + 4096 / std::max<int64_t>(1, x_.size), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) f(line);
    });
  }

 private:
  AxisSplit x_;
  std::atomic<int64_t> wrong_ = -1;
};

// Label smoothing (Szegedy et al., arXiv 1512.00567, section 7) gives every class the share s/C of the target.
class SoftmaxLossesKernel final : public LineKernel {
 public:
  SoftmaxLossesKernel(const KernelQuery& query, bool backward)
      : LineKernel(SplitOf(query)),
        has_ignore_(query.node.attributes.Bool("has_ignore")),
        ignore_label_(query.node.attributes.Int("ignore_label")),
        smoothing_(query.node.attributes.Float("smoothing")),
        backward_(backward) {}
  // The forward pass has reported wrong labels already.
  bool CanFault() const override { return !backward_; }

  void Run() override {
    ForLines([this](int64_t line) {
      const int64_t label = ReadLabel(has_ignore_, ignore_label_, double{in<float>(1)[line]}, x().size);
      if (backward_) {
        Backward(line, label);
      } else {
        Forward(line, label);
      }
    });
  }

 private:
  void Forward(int64_t line, int64_t label) {
    const int64_t classes = x().size;
    const int64_t step = x().inner;
    const float* scores = in<float>(0) + First(line);
    auto* p = out<float>(2) + First(line);
    if (step == 1) {
      softmax_(scores, p, classes, 0);
    } else {
      Softmax(scores, p);
    }
    if (label == kWrongLabel) FoundWrong(line);
    out<float>(1)[line] = label < 0 ? 0.0F : 1.0F;
    const double most = -std::log(double{FLT_MIN});
    double loss = 0;
    if (label >= 0) loss = (1 - smoothing_) * -std::log(std::max(double{p[label * step]}, double{FLT_MIN}));
    if (label >= 0 && smoothing_ != 0) {
      const double costs = step == 1 ? costs_(scores, p, classes, most) : Costs(scores, p, most);
      loss += smoothing_ / static_cast<double>(classes) * costs;
    }
    out<float>(0)[line] = static_cast<float>(loss);
  }

  // The same as CostsRow, of classes that lie apart.
  double Costs(const float* scores, const float* p, double most) const {
    const int64_t classes = x().size;
    const int64_t step = x().inner;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) best = scores[c * step] > scores[best * step] ? c : best;
    const double total = double{scores[best * step]} - std::log(double{p[best * step]});
    double costs = 0;
    for (int64_t c = 0; c < classes; ++c) costs += std::min(total - double{scores[c * step]}, most);
    return costs;
  }

  // Computes the probabilities of classes that lie apart.
  void Softmax(const float* scores, float* p) const {
    const int64_t classes = x().size;
    const int64_t step = x().inner;
    float max = scores[0];
    for (int64_t c = 1; c < classes; ++c) max = std::max(max, scores[c * step]);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += p[c * step] = std::exp(scores[c * step] - max);
    const auto scale = static_cast<float>(1 / sum);
    for (int64_t c = 0; c < classes; ++c) p[c * step] *= scale;
  }

  void Backward(int64_t line, int64_t label) {
    const int64_t classes = x().size;
    const int64_t step = x().inner;
    const float* p = in<float>(0) + First(line);
    auto* dx = out<float>(0) + First(line);
    const float dloss = in<float>(2)[line];
    const auto share = static_cast<float>(smoothing_ / static_cast<double>(classes));
    const auto rest = static_cast<float>(1 - smoothing_);
    for (int64_t c = 0; c < classes; ++c) {
      const float hit = c == label ? rest : 0.0F;
      dx[c * step] = label < 0 ? 0.0F : (p[c * step] - hit - share) * dloss;
    }
  }

  bool has_ignore_;
  int64_t ignore_label_;
  double smoothing_;
  bool backward_;
  SoftmaxRow softmax_ = BestSoftmaxRow();
  CostsRow costs_ = BestCostsRow();
};

// Predictions are found in parallel, counts are made by one thread: a count needs one increment a line, a prediction a
// pass over its classes.
class ClassCountsKernel final : public LineKernel {
 public:
  explicit ClassCountsKernel(const KernelQuery& query)
      : LineKernel(SplitOf(query)), ignored_(query.node.attributes.Get<Ints>("ignore")) {}
  // The label of each line, or -1, and its prediction; behind them the counts, which float32 would stop at 2^24.
  int64_t scratch_bytes() const override {
    return (Lines() * 2 + 3 * x().size) * static_cast<int64_t>(sizeof(int64_t));
  }

  void Run() override {
    auto* pairs = scratch<int64_t>();
    ForLines([&](int64_t line) { Predict(line, pairs + 2 * line); });
    int64_t* counts = pairs + 2 * Lines();
    std::fill_n(counts, 3 * x().size, int64_t{0});
    for (int64_t line = 0; line < Lines(); ++line) {
      const int64_t label = pairs[2 * line];
      const int64_t best = pairs[2 * line + 1];
      if (label < 0) continue;
      if (label == best) counts[label] += 1;
      counts[x().size + label] += 1;
      counts[2 * x().size + best] += 1;
    }
    std::transform(counts, counts + 3 * x().size, out<float>(0), [](int64_t n) { return static_cast<float>(n); });
  }

 private:
  // The last of equal scores wins, as in DeepLab's SegAccuracy (layers/ops/loss/class_counts.cpp).
  void Predict(int64_t line, int64_t* pair) {
    const float* scores = in<float>(0) + First(line);
    const int64_t step = x().inner;
    const float value = in<float>(1)[line];
    const bool is_ignored =
        std::ranges::any_of(ignored_, [&](int64_t label) { return value == static_cast<float>(label); });
    const int64_t label = ReadLabel(false, 0, double{value}, x().size);
    if (label < 0 && !is_ignored) FoundWrong(line);
    pair[0] = is_ignored ? -1 : label;
    pair[1] = 0;
    for (int64_t c = 1; c < x().size; ++c) {
      if (scores[c * step] >= scores[pair[1] * step]) pair[1] = c;
    }
  }

  Ints ignored_;
};

template <bool kBackward>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<SoftmaxLossesKernel>(query, kBackward);
}

std::unique_ptr<Kernel> MakeCounts(const KernelQuery& query) { return std::make_unique<ClassCountsKernel>(query); }

}  // namespace

KernelDef MokaClassCounts() { return {.name = "moka", .op = "class_counts", .refuse = Refuse, .make = MakeCounts}; }

KernelDef MokaSoftmaxLosses() {
  return {.name = "moka", .op = "softmax_losses", .refuse = Refuse, .make = Make<false>};
}

KernelDef MokaSoftmaxLossesBackward() {
  return {.name = "moka", .op = "softmax_losses_backward", .refuse = Refuse, .make = Make<true>};
}

}  // namespace moka
