// The largest value of a line and the sum of exponentials under it, found in one sweep: the running sum is scaled when
// a larger value comes (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018).
#pragma once

#include <cmath>

#include "layers/kernels/cuda/line.cuh"
#include "layers/kernels/cuda/types.cuh"

namespace moka::cuda {

// The base of a functor of rows (launch.cuh) over lines of x.
template <class T>
struct SoftmaxState {
  using W = Wide<T>;
  struct State {
    W max;
    W sum;  // of exp(x - max)
  };

  LineMap lines;
  const T* x;

  __host__ __device__ State Start() const { return {-INFINITY, 0}; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& s) const {
    Join(s, {ToWide(x[lines.Offset(line, c)]), 1});
  }
  __host__ __device__ static void Join(State& s, const State& other) {
    if (other.sum == 0) return;
    if (other.max > s.max) {
      s.sum = s.sum == 0 ? other.sum : s.sum * exp(s.max - other.max) + other.sum;
      s.max = other.max;
    } else if (s.max == other.max) {
      s.sum += other.sum;  // both may be infinite
    } else {
      s.sum += other.sum * exp(other.max - s.max);
    }
  }
  __host__ __device__ W Probability(int64_t line, int64_t c, const State& s) const {
    return exp(ToWide(x[lines.Offset(line, c)]) - s.max) / s.sum;
  }
};

}  // namespace moka::cuda
