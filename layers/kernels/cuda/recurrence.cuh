// The part that the recurrences on GPUs share: where a step's values stand, which rows go on, what a mark does to a
// state. A step is one product with the recurrent weights and one functor over rows x units; steps follow each other in
// the stream.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/gemm.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/types.cuh"

namespace moka::cuda {

// The view that step t's functor has of the recurrence.
template <class T>
struct StepView {
  int64_t steps;
  int64_t rows;
  int64_t units;
  int64_t gates;
  int64_t t;
  const T* going;    // [steps,rows]
  const T* lengths;  // [rows]; null: every row has all steps

  __host__ __device__ int64_t Row(int64_t i) const { return i / units; }
  __host__ __device__ int64_t Unit(int64_t i) const { return i % units; }
  // Places in [steps,rows,units] and [steps,rows,gates*units].
  __host__ __device__ int64_t At(int64_t i) const { return t * rows * units + i; }
  __host__ __device__ int64_t Gate(int64_t i, int64_t gate) const {
    return ((t * rows + Row(i)) * gates + gate) * units + Unit(i);
  }
  // In a step's sums [rows,gates*units].
  __host__ __device__ int64_t Sum(int64_t i, int64_t gate) const { return (Row(i) * gates + gate) * units + Unit(i); }
  __host__ __device__ bool HasEnded(int64_t step, int64_t row) const {
    return lengths != nullptr && !(static_cast<double>(step) < trunc(static_cast<double>(ToWide(lengths[row]))));
  }
  // Returns what the mark of a step leaves of a state: nothing where the mark is 0, whatever the state is (NaN too).
  __host__ __device__ Wide<T> Kept(int64_t step, int64_t row, Wide<T> state) const {
    const Wide<T> m = ToWide(going[step * rows + row]);
    return m == 0 ? 0 : m * state;
  }
  // Whether nothing reaches a row's gradient from the step after.
  __host__ __device__ bool IsLast(int64_t row) const { return t + 1 == steps || HasEnded(t + 1, row); }
};

// For a very negative x exp(-x) is infinite and the result 0, as it should be.
template <class W>
__host__ __device__ W Sigmoid(W x) {
  return 1 / (1 + exp(-x));
}

// The sizes of a recurrent node, and its step's product: sums [rows,gates*units] = state [rows,units] * w^T forward,
// sums [rows,units] = gradients [rows,gates*units] * w backward, w [gates*units,units].
struct RecurrentProduct {
  int64_t steps;
  int64_t rows;
  int64_t units;
  int64_t gates;
  DType dtype;    // of states and gates
  DType factors;  // of the weights: what a product multiplies
  std::unique_ptr<Gemm> gemm;

  RecurrentProduct(const KernelQuery& query, const Shape& gate_shape, int64_t gate_count, size_t weights,
                   bool is_backward)
      : steps(gate_shape[0]),
        rows(gate_shape[1]),
        units(gate_shape[2] / gate_count),
        gates(gate_count),
        dtype(query.outputs[0].dtype),
        factors(query.inputs[weights].dtype) {
    GemmProblem p{.m = rows, .n = gates * units, .k = units, .transpose_b = true};
    if (is_backward) p = {.m = rows, .n = units, .k = gates * units};
    p.inputs = factors;
    p.output = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    // Backward it reads one step after another of all gradients, unless they are rounded for it.
    const int64_t step_bytes = rows * gates * units * BytesOf(dtype);
    while (is_backward && factors == dtype && step_bytes % p.alignment_bytes != 0) p.alignment_bytes /= 2;
    gemm = MakeGemm(p, query);
  }
  int64_t State() const { return rows * units; }
};

// Floats of scratch, aligned as a kernel's pointers are.
inline int64_t AlignedBytes(int64_t count, int64_t width) { return (count * width + 63) / 64 * 64; }

// A recurrence's kernel: states and sums of the widest type first in its scratch, then the product's room.
class RecurrentKernel : public BoundKernel {
 public:
  explicit RecurrentKernel(RecurrentProduct product) : p_(std::move(product)) {}
  std::string_view implementation() const override { return p_.gemm->implementation(); }

 protected:
  // Returns the bytes of `values` values for each element of a state.
  int64_t StateBytes(int64_t values = 1) const { return AlignedBytes(values * p_.State(), sizeof(double)); }
  // And of a step's gradients of gates, rounded for the product, where its factors are of another type.
  int64_t FactorBytes() const { return p_.factors == p_.dtype ? 0 : StateBytes(p_.gates); }

  // f<T, W>() with the types of states and of weights: both the same, or float and a half type.
  template <class F>
  void WithTypes(F&& f) const {
    WithFloat(p_.factors, [&]<class W>() {
      if constexpr (!std::is_same_v<Wide<W>, W>) {
        if (p_.dtype == DType::kFloat32) return f.template operator()<float, W>();
      }
      f.template operator()<W, W>();
    });
  }

  RecurrentProduct p_;
};

// A row of a recurrence made by K.
template <class K>
KernelDef RecurrentRow(const char* op) {
  return {.name = "gemm",
          .op = op,
          .device = DeviceKind::kCuda,
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<K>(query); }};
}

}  // namespace moka::cuda
