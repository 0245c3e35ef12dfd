// Softmax along an axis, and with cross entropy: one loss (softmax_loss) or one a label (softmax_losses), and the
// gradients; a row of threads a line or, where lines lie side by side, a thread. Formulas in
// layers/ops/loss/softmax.cpp, softmax_loss.cpp and softmax_losses.cpp.
#include <cfloat>
#include <cmath>

#include "core/text.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/label_lines.cuh"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/softmax_state.cuh"

namespace moka {
namespace {

// Softmax -------------------------------------------------------------------------------------------------------------

// Maximum and sum come from one sweep (softmax_state.cuh); Write then makes the probabilities with them.
template <class T>
struct SoftmaxLine : cuda::SoftmaxState<T> {
  using State = typename cuda::SoftmaxState<T>::State;
  T* y;

  __host__ __device__ void Write(int64_t line, int64_t c, const State& s) const {
    y[this->lines.Offset(line, c)] = cuda::Narrow<T>(this->Probability(line, c, s));
  }
  __host__ __device__ void Finish(int64_t, const State&) const {}
};

// dx = y * (dy - sum of y*dy).
template <class T>
struct SoftmaxBackwardLine {
  cuda::LineMap lines;
  const T* y;
  const T* dy;
  T* dx;

  using State = cuda::Wide<T>;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& dot) const {
    const int64_t i = lines.Offset(line, c);
    dot += cuda::ToWide(y[i]) * cuda::ToWide(dy[i]);
  }
  __host__ __device__ static void Join(State& dot, const State& other) { dot += other; }
  __host__ __device__ void Write(int64_t line, int64_t c, const State& dot) const {
    const int64_t i = lines.Offset(line, c);
    dx[i] = cuda::Narrow<T>(cuda::ToWide(y[i]) * (cuda::ToWide(dy[i]) - dot));
  }
  __host__ __device__ void Finish(int64_t, const State&) const {}
};

// A query of two inputs is the gradient's: y and dy.
class SoftmaxKernel final : public BoundKernel {
 public:
  explicit SoftmaxKernel(const KernelQuery& query)
      : lines_(cuda::LinesOf(query)), dtype_(query.inputs[0].dtype), is_backward_(query.inputs.size() == 2) {}

  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (is_backward_) {
        cuda::ForEachLine(stream(), lines_, SoftmaxBackwardLine<T>{lines_, in<T>(0), in<T>(1), out<T>(0)});
      } else {
        cuda::ForEachLine(stream(), lines_, SoftmaxLine<T>{{lines_, in<T>(0)}, out<T>(0)});
      }
    });
  }

 private:
  cuda::LineMap lines_;
  DType dtype_;
  bool is_backward_;
};

std::unique_ptr<Kernel> Make(const KernelQuery& query) { return std::make_unique<SoftmaxKernel>(query); }

// Losses --------------------------------------------------------------------------------------------------------------

// A line's loss and whether it counts; the probability is kept where it is a result. L: the losses' type.
// The loss is -log of the label's probability, which is held at FLT_MIN as in Caffe, so that a hopeless prediction
// costs 87 and not infinity. With smoothing (Szegedy et al., arXiv 1512.00567, section 7) every class has a share of
// the target.
template <class T, class L>
struct LossLine : cuda::SoftmaxState<T> {
  using W = cuda::Wide<T>;
  using State = typename cuda::SoftmaxState<T>::State;
  LabelRule rule;
  W smoothing;
  const float* label;
  L* loss;
  L* valid;
  T* probability;  // null: not wanted
  cuda::LabelRecord record;

  __host__ __device__ void Write(int64_t line, int64_t c, const State& s) const {
    if (probability != nullptr)
      probability[this->lines.Offset(line, c)] = cuda::Narrow<T>(this->Probability(line, c, s));
  }
  // A NaN stays one: a loss of 0 would hide that the training diverged.
  __host__ __device__ W Cost(int64_t line, int64_t c, const State& s) const {
    const W p = this->Probability(line, c, s);
    return -log(p < static_cast<W>(FLT_MIN) ? static_cast<W>(FLT_MIN) : p);
  }
  __host__ __device__ void Finish(int64_t line, const State& s) const {
    const int64_t own = rule.Read(label[line]);
    if (own == kWrongLabel) record.Report(line, label[line]);
    valid[line] = own < 0 ? 0 : 1;
    // The label's part first, then, with smoothing, an equal part of every class.
    W sum = own < 0 ? W{0} : (1 - smoothing) * Cost(line, own, s);
    for (int64_t c = 0; own >= 0 && smoothing != 0 && c < this->lines.size; ++c) {
      sum += smoothing / static_cast<W>(this->lines.size) * Cost(line, c, s);
    }
    loss[line] = static_cast<L>(sum);
  }
};

// Loss and count of all lines, from those of each.
template <class L>
struct LossSum {
  const double* loss;
  const double* valid;
  L* sum;
  L* count;
  struct State {
    double loss;
    double valid;
  };
  __host__ __device__ State Start() const { return {0, 0}; }
  __host__ __device__ void Add(int64_t, int64_t i, State& s) const { Join(s, {loss[i], valid[i]}); }
  __host__ __device__ static void Join(State& s, const State& later) {
    s.loss += later.loss;
    s.valid += later.valid;
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t, const State& s) const {
    *sum = static_cast<L>(s.loss);
    *count = static_cast<L>(s.valid);
  }
};

// softmax_loss, and softmax_loss_forward, which has no probability.
class SoftmaxLossKernel final : public cuda::LabelKernel {
 public:
  using LabelKernel::LabelKernel;
  int64_t scratch_bytes() const override { return 2 * lines().Count() * int64_t{sizeof(double)}; }
  void Run() override {
    auto* losses = scratch<double>();
    double* const valid = losses + lines().Count();
    cuda::WithFloat(dtype(), [&]<class T>() {
      using W = cuda::Wide<T>;
      T* const probability = output_count() > 2 ? out<T>(2) : nullptr;
      cuda::ForEachLine(
          stream(), lines(),
          LossLine<T, double>{{lines(), in<T>(0)}, rule(), W{0}, in<float>(1), losses, valid, probability, record()});
      cuda::ForEachRow(stream(), 1, lines().Count(), LossSum<W>{losses, valid, out<W>(0), out<W>(1)});
    });
  }
};

// Leaves each line's loss and validity as results; the normalisation over them is the graph's.
class SoftmaxLossesKernel final : public cuda::LabelKernel {
 public:
  explicit SoftmaxLossesKernel(const KernelQuery& query)
      : LabelKernel(query), smoothing_(query.node.attributes.Float("smoothing")) {}
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      using W = cuda::Wide<T>;
      cuda::ForEachLine(stream(), lines(),
                        LossLine<T, W>{{lines(), in<T>(0)},
                                       rule(),
                                       static_cast<W>(smoothing_),
                                       in<float>(1),
                                       out<W>(0),
                                       out<W>(1),
                                       out<T>(2),
                                       record()});
    });
  }

 private:
  double smoothing_;
};

// dx = (p - t) * dloss of the line, t the target with the part `share` of every class and `rest` of the label's own.
template <class T, class L>
struct LossBackwardEach {
  using W = cuda::Wide<T>;
  cuda::LineMap lines;
  LabelRule rule;
  W rest;
  W share;
  const T* probability;
  const float* label;
  const L* dloss;  // one, or one a line
  bool is_one;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    // Element i is class i / inner % size of this line.
    const int64_t line = i / (lines.size * lines.inner) * lines.inner + i % lines.inner;
    const int64_t own = rule.Read(label[line]);
    const W target = (i / lines.inner % lines.size == own ? rest : W{0}) + share;
    const W d = static_cast<W>(dloss[is_one ? 0 : line]);
    dx[i] = cuda::Narrow<T>(own < 0 ? W{0} : (cuda::ToWide(probability[i]) - target) * d);
  }
};

// The gradient of both losses; the forward has reported wrong labels already.
class LossBackwardKernel final : public cuda::LabelKernel {
 public:
  explicit LossBackwardKernel(const KernelQuery& query)
      : LabelKernel(query),
        smoothing_(query.node.op->name == "softmax_losses_backward" ? query.node.attributes.Float("smoothing") : 0),
        dloss_(query.inputs[2].dtype),
        is_one_(query.node.op->name == "softmax_loss_backward") {}
  bool CanFault() const override { return false; }
  void Run() override {
    cuda::WithFloat(dtype(), [&]<class T>() {
      if (dloss_ == dtype()) {
        Launch<T, T>();
      } else {
        Launch<T, float>();
      }
    });
  }

 private:
  template <class T, class L>
  void Launch() {
    using W = cuda::Wide<T>;
    cuda::ForEach(stream(), lines().Count() * lines().size,
                  LossBackwardEach<T, L>{lines(), rule(), static_cast<W>(1 - smoothing_),
                                         static_cast<W>(smoothing_ / static_cast<double>(lines().size)), in<T>(0),
                                         in<float>(1), in<L>(2), is_one_, out<T>(0)});
  }

  double smoothing_;
  DType dloss_;
  bool is_one_;
};

std::string RefuseBackward(const KernelQuery& query) {
  const DType dloss = query.inputs[2].dtype;
  if (dloss != query.inputs[0].dtype && dloss != DType::kFloat32) {
    return StrCat("dloss must be of the probability's type or float32, not ", NameOf(dloss));
  }
  return cuda::RefuseUnlessLabels(query);
}

}  // namespace

KernelDef CudaSoftmax() {
  return {.name = "moka", .op = "softmax", .device = DeviceKind::kCuda, .refuse = RefuseUnlessPlain, .make = Make};
}

KernelDef CudaSoftmaxBackward() {
  return {
      .name = "moka", .op = "softmax_backward", .device = DeviceKind::kCuda, .refuse = RefuseUnlessPlain, .make = Make};
}

KernelDef CudaSoftmaxLoss() { return cuda::OwnRow<SoftmaxLossKernel>("softmax_loss", cuda::RefuseUnlessLabels); }
KernelDef CudaSoftmaxLossForward() {
  return cuda::OwnRow<SoftmaxLossKernel>("softmax_loss_forward", cuda::RefuseUnlessLabels);
}
KernelDef CudaSoftmaxLossBackward() {
  return cuda::OwnRow<LossBackwardKernel>("softmax_loss_backward", RefuseBackward);
}
KernelDef CudaSoftmaxLosses() { return cuda::OwnRow<SoftmaxLossesKernel>("softmax_losses", cuda::RefuseUnlessLabels); }
KernelDef CudaSoftmaxLossesBackward() {
  return cuda::OwnRow<LossBackwardKernel>("softmax_losses_backward", RefuseBackward);
}

}  // namespace moka
