// The recurrences of LSTM and GRU (layers/ops/recurrent/lstm.cpp and gru.cpp have the equations).
#include <cmath>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/recurrence.cuh"

namespace moka {
namespace {

using cuda::Narrow;
using cuda::StepView;
using cuda::ToWide;
using cuda::Wide;

// LSTM ----------------------------------------------------------------------------------------------------------------

// The state that enters step 0, and the last states of rows that have no step.
template <class T, class W>
struct LstmBegin {
  StepView<T> v;
  const T* h;
  const T* c;
  W* kept;  // what the next step multiplies
  T* h_last;
  T* c_last;
  __host__ __device__ void operator()(int64_t i) const {
    kept[i] = Narrow<W>(v.Kept(0, v.Row(i), ToWide(h[i])));
    h_last[i] = h[i];
    c_last[i] = c[i];
  }
};

// One thread a unit: gates i, f, o and g of Hochreiter and Schmidhuber's cell with forget gates, from x (the input's
// part, of all steps) and sums (this step's product). States are Wide inside a step and rounded once when they are
// stored.
template <class T, class W>
struct LstmCell {
  StepView<T> v;
  Wide<T> forget_bias;
  const T* x;
  const Wide<T>* sums;
  W* kept;
  T* y;
  T* h_last;
  T* c_last;
  T* gates;  // null where the gradient's values are not wanted, and cells
  T* cells;

  __host__ __device__ void operator()(int64_t i) const {
    const int64_t row = v.Row(i);
    if (v.HasEnded(v.t, row)) {
      y[v.At(i)] = Narrow<T>(0);
      if (gates == nullptr) return;
      for (int64_t g = 0; g < 4; ++g) gates[v.Gate(i, g)] = Narrow<T>(0);
      cells[v.At(i)] = Narrow<T>(0);
      return;
    }
    Wide<T> gate[4];
    for (int64_t g = 0; g < 4; ++g) gate[g] = ToWide(x[v.Gate(i, g)]) + sums[v.Sum(i, g)];
    gate[0] = cuda::Sigmoid(gate[0]);
    gate[1] = cuda::Sigmoid(gate[1] + forget_bias);
    gate[2] = cuda::Sigmoid(gate[2]);
    gate[3] = tanh(gate[3]);
    // c_t = i g + f c_(t-1), h_t = o tanh(c_t): the forget gate multiplies the state as the mark leaves it.
    const Wide<T> c = gate[0] * gate[3] + gate[1] * v.Kept(v.t, row, ToWide(c_last[i]));
    const Wide<T> h = gate[2] * tanh(c);
    y[v.At(i)] = Narrow<T>(h);
    h_last[i] = Narrow<T>(h);
    c_last[i] = Narrow<T>(c);
    if (v.t + 1 < v.steps) kept[i] = Narrow<W>(v.Kept(v.t + 1, row, h));
    if (gates == nullptr) return;
    for (int64_t g = 0; g < 4; ++g) gates[v.Gate(i, g)] = Narrow<T>(gate[g]);
    cells[v.At(i)] = Narrow<T>(c);
  }
};

// A step is a matrix product and a launch over all units: cells are independent once the product is there. All steps
// are queued at once, so the host waits for none.
class LstmKernel final : public cuda::RecurrentKernel {
 public:
  explicit LstmKernel(const KernelQuery& query)
      : RecurrentKernel({query, query.inputs[0].shape, 4, 4, false}),
        forget_bias_(query.node.attributes.Float("forget_bias")) {}
  int64_t scratch_bytes() const override { return StateBytes() + StateBytes(4) + p_.gemm->scratch_bytes(); }
  void Run() override {
    WithTypes([&]<class T, class W>() { RunAs<T, W>(); });
  }

 private:
  template <class T, class W>
  void RunAs() const {
    W* kept = scratch<W>();
    auto* sums = scratch<Wide<T>>(StateBytes());
    auto* room = scratch<std::byte>(StateBytes() + StateBytes(4));
    StepView<T> view{p_.steps, p_.rows, p_.units, 4, 0, in<T>(1), input_count() > 5 ? in<T>(5) : nullptr};
    cuda::ForEach(stream(), p_.State(), LstmBegin<T, W>{view, in<T>(2), in<T>(3), kept, out<T>(1), out<T>(2)});
    const bool saves = output_count() == 5;
    for (view.t = 0; view.t < p_.steps; ++view.t) {
      // The product of all four gates at once: [rows, units] times [units, 4 units].
      p_.gemm->Run(stream(), kept, in<W>(4), nullptr, sums, room);
      cuda::ForEach(stream(), p_.State(),
                    LstmCell<T, W>{view, static_cast<Wide<T>>(forget_bias_), in<T>(0), sums, kept, out<T>(0), out<T>(1),
                                   out<T>(2), saves ? out<T>(3) : nullptr, saves ? out<T>(4) : nullptr});
    }
  }

  double forget_bias_;
};

// The chain rule of LstmCell by thread: dh has come from y, from the step after (its product with the weights) or from
// the last state; the cell's gradient is carried from step to step in `carried`, in Wide, so that a long sequence of
// half types does not lose it.
template <class T, class W>
struct LstmBackwardCell {
  StepView<T> v;
  const T* dy;
  const T* dh_last;
  const T* dc_last;
  const T* gates;
  const T* cells;
  const T* c;           // before step 0
  const T* more_gates;  // gradients of the gates and cells themselves; null: none
  const T* more_cells;
  const Wide<T>* sums;  // what the step after gives to h, before its mark
  Wide<T>* carried;     // the gradient of c
  T* dx;
  W* factors;  // this step's dx as the product takes it, of its rows alone; null: dx itself

  __host__ __device__ void operator()(int64_t i) const {
    const int64_t row = v.Row(i);
    if (v.t + 1 == v.steps) carried[i] = ToWide(dc_last[i]);
    if (v.HasEnded(v.t, row)) {
      for (int64_t g = 0; g < 4; ++g) Give(i, g, 0);
      return;
    }
    Wide<T> gate[4];
    Wide<T> more[4] = {0, 0, 0, 0};
    for (int64_t g = 0; g < 4; ++g) {
      gate[g] = ToWide(gates[v.Gate(i, g)]);
      if (more_gates != nullptr) more[g] = ToWide(more_gates[v.Gate(i, g)]);
    }
    const Wide<T> later = v.IsLast(row) ? ToWide(dh_last[i]) : v.Kept(v.t + 1, row, sums[i]);
    const Wide<T> dh = later + ToWide(dy[v.At(i)]);
    const Wide<T> cell = tanh(ToWide(cells[v.At(i)]));
    const Wide<T> before = v.Kept(v.t, row, ToWide(v.t == 0 ? c[i] : cells[v.At(i) - v.rows * v.units]));
    Wide<T> dc = carried[i] + dh * gate[2] * (1 - cell * cell);
    if (more_cells != nullptr) dc += ToWide(more_cells[v.At(i)]);
    const Wide<T> d[4] = {dc * gate[3] + more[0], dc * before + more[1], dh * cell + more[2], dc * gate[0] + more[3]};
    // The derivatives of sigmoid and tanh by their own values: s (1 - s) and 1 - g^2.
    for (int64_t g = 0; g < 3; ++g) Give(i, g, d[g] * gate[g] * (1 - gate[g]));
    Give(i, 3, d[3] * (1 - gate[3] * gate[3]));
    carried[i] = v.Kept(v.t, row, dc * gate[1]);
  }

  __host__ __device__ void Give(int64_t i, int64_t gate, Wide<T> d) const {
    dx[v.Gate(i, gate)] = Narrow<T>(d);
    if (factors != nullptr) factors[v.Sum(i, gate)] = Narrow<W>(d);
  }
};

// The gradients of the states before step 0.
template <class T>
struct LstmBackwardEnd {
  StepView<T> v;
  const T* dh_last;
  const Wide<T>* sums;
  const Wide<T>* carried;
  T* dh;
  T* dc;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t row = v.Row(i);
    dh[i] = v.HasEnded(0, row) ? dh_last[i] : Narrow<T>(v.Kept(0, row, sums[i]));
    dc[i] = Narrow<T>(carried[i]);
  }
};

// The steps in reverse: a cell launch leaves the gates' gradients in dx, and their product with the weights is what the
// step before adds to its dh. If nobody wants the first states' gradients, the last product is left out.
class LstmBackwardKernel final : public cuda::RecurrentKernel {
 public:
  explicit LstmBackwardKernel(const KernelQuery& query) : RecurrentKernel({query, query.inputs[3].shape, 4, 7, true}) {}
  int64_t scratch_bytes() const override { return 2 * StateBytes() + FactorBytes() + p_.gemm->scratch_bytes(); }
  void Run() override {
    WithTypes([&]<class T, class W>() { RunAs<T, W>(); });
  }

 private:
  template <class T, class W>
  void RunAs() const {
    auto* sums = scratch<Wide<T>>();
    auto* carried = scratch<Wide<T>>(StateBytes());
    W* const factors = FactorBytes() > 0 ? scratch<W>(2 * StateBytes()) : nullptr;
    auto* room = scratch<std::byte>(2 * StateBytes() + FactorBytes());
    const size_t count = input_count();
    StepView<T> view{p_.steps, p_.rows, p_.units, 4, 0, in<T>(5), count % 2 == 1 ? in<T>(8) : nullptr};
    const T* more_gates = count >= 10 ? in<T>(count - 2) : nullptr;
    const T* more_cells = count >= 10 ? in<T>(count - 1) : nullptr;
    const int64_t step = p_.rows * 4 * p_.units;
    for (view.t = p_.steps - 1; view.t >= 0; --view.t) {
      cuda::ForEach(stream(), p_.State(),
                    LstmBackwardCell<T, W>{view, in<T>(0), in<T>(1), in<T>(2), in<T>(3), in<T>(4), in<T>(6), more_gates,
                                           more_cells, sums, carried, out<T>(0), factors});
      // This product would be the first states' gradient, which nobody wants then.
      if (view.t == 0 && output_count() == 1) break;
      const void* const a = factors != nullptr ? static_cast<const void*>(factors) : out<T>(0) + view.t * step;
      p_.gemm->Run(stream(), a, in<W>(7), nullptr, sums, room);
    }
    if (output_count() == 1) return;
    view.t = 0;
    cuda::ForEach(stream(), p_.State(), LstmBackwardEnd<T>{view, in<T>(1), sums, carried, out<T>(1), out<T>(2)});
  }
};

// GRU -----------------------------------------------------------------------------------------------------------------

// The state that enters step 0, and the last state of rows that have no step.
template <class T, class W>
struct GruBegin {
  StepView<T> v;
  const T* h;
  W* kept;  // what the next step multiplies
  T* h_last;
  __host__ __device__ void operator()(int64_t i) const {
    kept[i] = Narrow<W>(v.Kept(0, v.Row(i), ToWide(h[i])));
    h_last[i] = h[i];
  }
};

// cuDNN's form: the reset gate multiplies the recurrent product with its bias (`held`), so that one product a step
// serves all three gates.
template <class T, class W>
struct GruCell {
  StepView<T> v;
  const T* x;
  const T* c;
  const Wide<T>* sums;
  W* kept;
  T* y;
  T* h_last;
  T* gates;  // null where the gradient's values are not wanted, and inner
  T* inner;

  __host__ __device__ void operator()(int64_t i) const {
    const int64_t row = v.Row(i);
    if (v.HasEnded(v.t, row)) {
      y[v.At(i)] = Narrow<T>(0);
      if (gates == nullptr) return;
      for (int64_t g = 0; g < 3; ++g) gates[v.Gate(i, g)] = Narrow<T>(0);
      inner[v.At(i)] = Narrow<T>(0);
      return;
    }
    const Wide<T> held = sums[v.Sum(i, 2)] + ToWide(c[v.Unit(i)]);
    const Wide<T> reset = cuda::Sigmoid(ToWide(x[v.Gate(i, 0)]) + sums[v.Sum(i, 0)]);
    const Wide<T> z = cuda::Sigmoid(ToWide(x[v.Gate(i, 1)]) + sums[v.Sum(i, 1)]);
    const Wide<T> n = tanh(ToWide(x[v.Gate(i, 2)]) + reset * held);
    const Wide<T> h = (1 - z) * n + z * v.Kept(v.t, row, ToWide(h_last[i]));
    y[v.At(i)] = Narrow<T>(h);
    h_last[i] = Narrow<T>(h);
    if (v.t + 1 < v.steps) kept[i] = Narrow<W>(v.Kept(v.t + 1, row, h));
    if (gates == nullptr) return;
    gates[v.Gate(i, 0)] = Narrow<T>(reset);
    gates[v.Gate(i, 1)] = Narrow<T>(z);
    gates[v.Gate(i, 2)] = Narrow<T>(n);
    inner[v.At(i)] = Narrow<T>(held);
  }
};

class GruKernel final : public cuda::RecurrentKernel {
 public:
  explicit GruKernel(const KernelQuery& query) : RecurrentKernel({query, query.inputs[0].shape, 3, 3, false}) {}
  int64_t scratch_bytes() const override { return StateBytes() + StateBytes(3) + p_.gemm->scratch_bytes(); }
  void Run() override {
    WithTypes([&]<class T, class W>() { RunAs<T, W>(); });
  }

 private:
  template <class T, class W>
  void RunAs() const {
    W* kept = scratch<W>();
    auto* sums = scratch<Wide<T>>(StateBytes());
    auto* room = scratch<std::byte>(StateBytes() + StateBytes(3));
    StepView<T> view{p_.steps, p_.rows, p_.units, 3, 0, in<T>(1), input_count() > 5 ? in<T>(5) : nullptr};
    cuda::ForEach(stream(), p_.State(), GruBegin<T, W>{view, in<T>(2), kept, out<T>(1)});
    const bool saves = output_count() == 4;
    for (view.t = 0; view.t < p_.steps; ++view.t) {
      // The product of all three gates at once: [rows, units] times [units, 3 units].
      p_.gemm->Run(stream(), kept, in<W>(3), nullptr, sums, room);
      cuda::ForEach(stream(), p_.State(),
                    GruCell<T, W>{view, in<T>(0), in<T>(4), sums, kept, out<T>(0), out<T>(1),
                                  saves ? out<T>(2) : nullptr, saves ? out<T>(3) : nullptr});
    }
  }
};

// dsums differs from dx in the third gate alone: the reset gate stands between the recurrent product and n, and so dq =
// dn r goes to the weights where dn goes to x.
template <class T, class W>
struct GruBackwardCell {
  StepView<T> v;
  const T* dy;
  const T* dh_last;
  const T* gates;
  const T* inner;
  const T* y;
  const T* h;           // before step 0
  const T* more_gates;  // gradients of the gates and of inner themselves; null: none
  const T* more_inner;
  const Wide<T>* sums;  // what the step after gives to h through its gates, before its mark
  Wide<T>* passed;      // and what z passes on
  T* dx;
  T* dsums;
  W* factors;  // this step's dsums as the product takes them, of its rows alone; null: dsums themselves

  __host__ __device__ void operator()(int64_t i) const {
    const int64_t row = v.Row(i);
    if (v.HasEnded(v.t, row)) {
      for (int64_t g = 0; g < 3; ++g) Give(i, g, 0, 0);
      return;
    }
    const auto more = [&](int64_t g) { return more_gates == nullptr ? 0 : ToWide(more_gates[v.Gate(i, g)]); };
    const Wide<T> later = v.IsLast(row) ? ToWide(dh_last[i]) : v.Kept(v.t + 1, row, passed[i] + sums[i]);
    const Wide<T> dh = later + ToWide(dy[v.At(i)]);
    const Wide<T> reset = ToWide(gates[v.Gate(i, 0)]);
    const Wide<T> z = ToWide(gates[v.Gate(i, 1)]);
    const Wide<T> n = ToWide(gates[v.Gate(i, 2)]);
    const Wide<T> before = v.Kept(v.t, row, ToWide(v.t == 0 ? h[i] : y[v.At(i) - v.rows * v.units]));
    // h = (1 - z) n + z h': dh reaches n, z (by h' - n) and h' itself (passed); dn reaches r through the product that
    // it holds back.
    const Wide<T> dn = (dh * (1 - z) + more(2)) * (1 - n * n);
    const Wide<T> dz = (dh * (before - n) + more(1)) * z * (1 - z);
    const Wide<T> dr = (dn * ToWide(inner[v.At(i)]) + more(0)) * reset * (1 - reset);
    Wide<T> dq = dn * reset;
    if (more_inner != nullptr) dq += ToWide(more_inner[v.At(i)]);
    const Wide<T> d[3] = {dr, dz, dn};
    for (int64_t g = 0; g < 3; ++g) Give(i, g, d[g], g == 2 ? dq : d[g]);
    passed[i] = dh * z;
  }

  __host__ __device__ void Give(int64_t i, int64_t gate, Wide<T> d, Wide<T> of_sum) const {
    dx[v.Gate(i, gate)] = Narrow<T>(d);
    dsums[v.Gate(i, gate)] = Narrow<T>(of_sum);
    if (factors != nullptr) factors[v.Sum(i, gate)] = Narrow<W>(of_sum);
  }
};

// The gradient of the state before step 0, through the gates and past them.
template <class T>
struct GruBackwardEnd {
  StepView<T> v;
  const T* dh_last;
  const Wide<T>* sums;
  const Wide<T>* passed;
  T* dh;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t row = v.Row(i);
    dh[i] = v.HasEnded(0, row) ? dh_last[i] : Narrow<T>(v.Kept(0, row, passed[i] + sums[i]));
  }
};

// As the LSTM's, but the product takes dsums: what the recurrent product has seen differs from what x has.
class GruBackwardKernel final : public cuda::RecurrentKernel {
 public:
  explicit GruBackwardKernel(const KernelQuery& query) : RecurrentKernel({query, query.inputs[2].shape, 3, 7, true}) {}
  int64_t scratch_bytes() const override { return 2 * StateBytes() + FactorBytes() + p_.gemm->scratch_bytes(); }
  void Run() override {
    WithTypes([&]<class T, class W>() { RunAs<T, W>(); });
  }

 private:
  template <class T, class W>
  void RunAs() const {
    auto* sums = scratch<Wide<T>>();
    auto* passed = scratch<Wide<T>>(StateBytes());
    W* const factors = FactorBytes() > 0 ? scratch<W>(2 * StateBytes()) : nullptr;
    auto* room = scratch<std::byte>(2 * StateBytes() + FactorBytes());
    const size_t count = input_count();
    StepView<T> view{p_.steps, p_.rows, p_.units, 3, 0, in<T>(5), count % 2 == 1 ? in<T>(8) : nullptr};
    const T* more_gates = count >= 10 ? in<T>(count - 2) : nullptr;
    const T* more_inner = count >= 10 ? in<T>(count - 1) : nullptr;
    const int64_t step = p_.rows * 3 * p_.units;
    for (view.t = p_.steps - 1; view.t >= 0; --view.t) {
      cuda::ForEach(stream(), p_.State(),
                    GruBackwardCell<T, W>{view, in<T>(0), in<T>(1), in<T>(2), in<T>(3), in<T>(4), in<T>(6), more_gates,
                                          more_inner, sums, passed, out<T>(0), out<T>(2), factors});
      const void* const a = factors != nullptr ? static_cast<const void*>(factors) : out<T>(2) + view.t * step;
      p_.gemm->Run(stream(), a, in<W>(7), nullptr, sums, room);
    }
    view.t = 0;
    cuda::ForEach(stream(), p_.State(), GruBackwardEnd<T>{view, in<T>(1), sums, passed, out<T>(1)});
  }
};

}  // namespace

KernelDef CudaLstm() { return cuda::RecurrentRow<LstmKernel>("lstm"); }
KernelDef CudaLstmForward() { return cuda::RecurrentRow<LstmKernel>("lstm_forward"); }
KernelDef CudaLstmBackward() { return cuda::RecurrentRow<LstmBackwardKernel>("lstm_backward"); }

KernelDef CudaGru() { return cuda::RecurrentRow<GruKernel>("gru"); }
KernelDef CudaGruForward() { return cuda::RecurrentRow<GruKernel>("gru_forward"); }
KernelDef CudaGruBackward() { return cuda::RecurrentRow<GruBackwardKernel>("gru_backward"); }

}  // namespace moka
