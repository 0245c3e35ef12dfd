// Softmax with loss, its gradient, accuracy and argmax over plain float32 tensors seen as [outer, classes, inner]. Each
// line (one label) leaves its result in scratch and one thread adds them in order, so sums do not depend on threads.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/loss/softmax_row.h"
#include "layers/ops/maths/labels.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

// The lines of a node with labels.
struct Lines {
  AxisSplit x;
  bool has_ignore = false;
  int64_t ignore_label = 0;

  int64_t Count() const { return x.outer * x.inner; }
  // Offset of class 0 of a line; the next classes follow x.inner apart.
  int64_t First(int64_t line) const { return line / x.inner * x.size * x.inner + line % x.inner; }
  int64_t Label(float value) const { return ReadLabel(has_ignore, ignore_label, double{value}, x.size); }
  int64_t Grain() const { return 1 + 4096 / std::max<int64_t>(1, x.size); }
};

Lines ReadLines(const KernelQuery& query) {
  const Attributes& a = query.node.attributes;
  const Shape& x = query.inputs[0].shape;
  return {SplitAt(x, CanonicalAxis(a.Int("axis"), x, "axis")), a.Bool("has_ignore"), a.Int("ignore_label")};
}

std::string Refuse(const KernelQuery& query) {
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  return RefuseUnlessPlain(query);
}

// A kernel that reads labels (input 1) and finds wrong ones.
class LabelKernel : public BoundKernel {
 public:
  explicit LabelKernel(const Lines& lines) : lines_(lines) {}
  bool CanFault() const override { return true; }
  std::string TakeFault() override {
    const int64_t line = std::exchange(wrong_line_, -1);
    if (line < 0) return {};
    return WrongLabelText({lines_.x.size, lines_.has_ignore, lines_.ignore_label}, line, double{wrong_value_});
  }

 protected:
  const Lines& lines() const { return lines_; }
  void FoundWrong(int64_t line) {
    if (wrong_line_ >= 0) return;
    wrong_line_ = line;
    wrong_value_ = in<float>(1)[line];
  }

 private:
  Lines lines_;
  int64_t wrong_line_ = -1;
  float wrong_value_ = 0;
};

// softmax_loss, and softmax_loss_forward, which computes the label's probability alone.
class SoftmaxLossKernel final : public LabelKernel {
 public:
  using LabelKernel::LabelKernel;
  int64_t scratch_bytes() const override { return lines().Count() * 8; }

  void Run() override {
    auto* losses = scratch<double>();
    ParallelFor(lines().Count(), lines().Grain(), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) losses[line] = OneLine(line);
    });
    double sum = 0;
    int64_t valid = 0;
    for (int64_t line = 0; line < lines().Count(); ++line) {
      if (losses[line] == kWrongLabel) FoundWrong(line);
      if (losses[line] < 0) continue;
      sum += losses[line];
      ++valid;
    }
    *out<float>(0) = static_cast<float>(sum);
    *out<float>(1) = static_cast<float>(valid);
  }

 private:
  // The loss of a line (never negative), or why its label does not count.
  double OneLine(int64_t line) const {
    const int64_t label = lines().Label(in<float>(1)[line]);
    // If nobody wants the probabilities, a line that does not count needs none.
    if (label < 0 && output_count() < 3) return static_cast<double>(label);
    const double p = Probability(line, std::max<int64_t>(label, 0));
    if (label < 0) return static_cast<double>(label);
    const double loss = -std::log(std::max(p, double{FLT_MIN}));
    return loss < 0 ? 0 : loss;  // a NaN stays one: a loss of 0 would hide that the training diverged
  }

  // Returns the probability of a class; all of the line's are kept if they are a result.
  double Probability(int64_t line, int64_t label) const {
    const auto [outer, classes, step] = lines().x;
    const float* x = in<float>(0) + lines().First(line);
    float* p = output_count() < 3 ? nullptr : out<float>(2) + lines().First(line);
    if (step == 1) return double{row_(x, p, classes, label)};
    return double{Strided(x, p, classes, step, label)};
  }

  // Scores are shifted by their maximum, so that no exponential overflows; the sum is in double.
  static float Strided(const float* x, float* p, int64_t classes, int64_t step, int64_t label) {
    float max = x[0];
    for (int64_t c = 1; c < classes; ++c) max = std::max(max, x[c * step]);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const float e = std::exp(x[c * step] - max);
      if (p != nullptr) p[c * step] = e;
      sum += e;
    }
    const auto scale = static_cast<float>(1 / sum);
    for (int64_t c = 0; p != nullptr && c < classes; ++c) p[c * step] *= scale;
    return std::exp(x[label * step] - max) * scale;
  }

  SoftmaxRow row_ = BestSoftmaxRow();
};

// dx = (p - 1 at the label) * scale, the scale being dloss, in which the graph has put the normalisation.
class SoftmaxLossBackwardKernel final : public LabelKernel {
 public:
  using LabelKernel::LabelKernel;
  // The forward has reported wrong labels already.
  bool CanFault() const override { return false; }

  void Run() override {
    const int64_t classes = lines().x.size;
    const int64_t step = lines().x.inner;
    const float scale = *in<float>(2);
    ParallelFor(lines().Count(), lines().Grain(), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t label = lines().Label(in<float>(1)[line]);
        const float* p = in<float>(0) + lines().First(line);
        auto* dx = out<float>(0) + lines().First(line);
        for (int64_t c = 0; c < classes; ++c) {
          const float hit = c == label ? 1.0F : 0.0F;
          dx[c * step] = label < 0 ? 0.0F : (p[c * step] - hit) * scale;
        }
      }
    });
  }
};

// A label is among the best k if at most k scores, its own among them, are not below its own: ties count against it, as
// in Caffe.
class AccuracyKernel final : public LabelKernel {
 public:
  AccuracyKernel(const Lines& l, int64_t top_k) : LabelKernel(l), top_k_(top_k) {}
  // For each line the right class, or ~class if it was not among the best, or kIgnored, kWrong; then counts a class.
  int64_t scratch_bytes() const override { return (lines().Count() + lines().x.size) * 8; }

  void Run() override {
    auto* results = scratch<int64_t>();
    ParallelFor(lines().Count(), lines().Grain(), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) results[line] = OneLine(line);
    });
    Sum(results, scratch<int64_t>(lines().Count() * 8));
  }

 private:
  static constexpr int64_t kIgnored = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kWrong = kIgnored + 1;

  int64_t OneLine(int64_t line) const {
    const auto [outer, classes, step] = lines().x;
    const int64_t label = lines().Label(in<float>(1)[line]);
    if (label < 0) return label == kWrongLabel ? kWrong : kIgnored;
    const float* x = in<float>(0) + lines().First(line);
    const float own = x[label * step];
    int64_t not_below = 0;
    for (int64_t c = 0; c < classes; ++c) not_below += x[c * step] < own ? 0 : 1;
    // ~label is negative, and ~ gives the label back.
    return not_below <= top_k_ ? label : ~label;
  }

  // Counts are whole numbers, so their order does not matter; the division by class comes last.
  void Sum(const int64_t* results, int64_t* valid_of) {
    const int64_t classes = lines().x.size;
    auto* right_of = out<float>(1);
    std::fill_n(valid_of, classes, 0);
    std::fill_n(right_of, classes, 0.0F);
    int64_t right = 0;
    int64_t valid = 0;
    for (int64_t line = 0; line < lines().Count(); ++line) {
      const int64_t result = results[line];
      if (result == kWrong) FoundWrong(line);
      if (result == kWrong || result == kIgnored) continue;
      ++valid;
      ++valid_of[result >= 0 ? result : ~result];
      if (result < 0) continue;
      ++right;
      right_of[result] += 1;
    }
    *out<float>(0) = valid == 0 ? 0 : static_cast<float>(static_cast<double>(right) / static_cast<double>(valid));
    for (int64_t c = 0; c < classes; ++c) {
      if (valid_of[c] > 0) right_of[c] /= static_cast<float>(valid_of[c]);
    }
  }

  int64_t top_k_;
};

// The top_k of each line by as many sweeps, so that nothing has to be kept: top_k is small.
// Without an axis a line is a whole image.
class ArgmaxKernel final : public BoundKernel {
 public:
  ArgmaxKernel(const Attributes& a, const Shape& x)
      : x_(a.Bool("has_axis") ? SplitAt(x, CanonicalAxis(a.Int("axis"), x, "axis"))
                              : AxisSplit{x[0], x.Count(1, x.rank()), 1}),
        top_k_(a.Int("top_k")),
        has_axis_(a.Bool("has_axis")),
        wants_value_(a.Bool("out_max_val")),
        first_of_equals_(a.Bool("first_of_equals")) {}

  void Run() override {
    ParallelFor(x_.outer * x_.inner, 1 + 4096 / x_.size, [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) OneLine(line);
    });
  }

 private:
  struct Item {
    float value;
    int64_t index;
  };

  // The highest element after `last` in the order of values falling, and among equals of indices falling or rising.
  // NaNs are below everything.
  Item Next(const float* x, const Item& last) const {
    Item best{std::numeric_limits<float>::quiet_NaN(), 0};
    for (int64_t i = 0; i < x_.size; ++i) {
      const int64_t c = first_of_equals_ ? x_.size - 1 - i : i;  // the last one of equals that the walk meets is taken
      const float value = x[c * x_.inner];
      const bool after =
          value < last.value || (value == last.value && (first_of_equals_ ? c > last.index : c < last.index));
      if (after && !(value < best.value)) best = {value, c};
    }
    return best;
  }

  void OneLine(int64_t line) const {
    const float* x = in<float>(0) + (line / x_.inner * x_.size * x_.inner + line % x_.inner);
    auto* y = out<float>(0);
    // The walk begins before everything: above all values, with an index beyond all.
    Item item{std::numeric_limits<float>::infinity(), first_of_equals_ ? -1 : x_.size};
    for (int64_t j = 0; j < top_k_; ++j) {
      item = Next(x, item);
      const auto index = static_cast<float>(item.index);
      if (has_axis_) {
        y[(line / x_.inner * top_k_ + j) * x_.inner + line % x_.inner] = wants_value_ ? item.value : index;
        continue;
      }
      y[(wants_value_ ? 2 : 1) * line * top_k_ + j] = index;
      if (wants_value_) y[(2 * line + 1) * top_k_ + j] = item.value;
    }
  }

  AxisSplit x_;
  int64_t top_k_;
  bool has_axis_;
  bool wants_value_;
  bool first_of_equals_;
};

template <class T>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<T>(ReadLines(query));
}

}  // namespace

KernelDef MokaAccuracy() {
  return {.name = "moka",
          .op = "accuracy",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<AccuracyKernel>(ReadLines(query), query.node.attributes.Int("top_k"));
          }};
}

KernelDef MokaArgmax() {
  return {.name = "moka",
          .op = "argmax",
          .refuse = Refuse,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<ArgmaxKernel>(query.node.attributes, query.inputs[0].shape);
          }};
}

KernelDef MokaSoftmaxLoss() {
  return {.name = "moka", .op = "softmax_loss", .refuse = Refuse, .make = Make<SoftmaxLossKernel>};
}

KernelDef MokaSoftmaxLossForward() {
  return {.name = "moka", .op = "softmax_loss_forward", .refuse = Refuse, .make = Make<SoftmaxLossKernel>};
}

KernelDef MokaSoftmaxLossBackward() {
  return {.name = "moka", .op = "softmax_loss_backward", .refuse = Refuse, .make = Make<SoftmaxLossBackwardKernel>};
}

}  // namespace moka
