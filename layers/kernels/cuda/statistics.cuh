// The statistics of batch normalisation on GPUs: one sweep sums x and x^2 of each channel in double, where the products
// of floats are exact, and the variance is E[x^2] - E[x]^2, at least 0. Of half numbers, whose products are exact in
// float32, a few dozen are added in that first.
#pragma once

#include <type_traits>

#include "layers/kernels/cuda/channel_sums.cuh"
#include "layers/kernels/cuda/normal.cuh"
#include "layers/kernels/cuda/pack.cuh"
#include "layers/kernels/cuda/types.cuh"

namespace moka::cuda {

// Where a channel's mean and variance go.
struct StatisticsOut {
  int64_t count;  // elements a channel
  ChannelValues mean;
  ChannelValues variance;

  __host__ __device__ void Set(int64_t c, double sum, double squares) const {
    const double m = sum / static_cast<double>(count);
    const double v = squares / static_cast<double>(count) - m * m;
    mean.Set(c, m);
    variance.Set(c, v < 0 ? 0 : v);  // a NaN stays one
  }
};

// For SumChannels.
template <class T>
struct Statistics {
  const T* x;
  StatisticsOut out;

  struct State {
    double sum;
    double squares;
  };
  using P = std::conditional_t<sizeof(T) == 2, float, double>;
  struct Part {
    P sum;
    P squares;
  };
  static constexpr int kAhead = 4;
  static constexpr int kBlocks = sizeof(T) == 2 ? 4 : 1;
  using End = Statistics;
  template <int V>
  struct Context {};
  template <int V>
  __host__ __device__ Context<V> Enter(int64_t) const {
    return {};
  }
  template <int V>
  using Loaded = Pack<T, V>;
  template <int V>
  __host__ __device__ Loaded<V> Load(const Context<V>&, int64_t i) const {
    return LoadPack<V>(x + i);
  }
  template <int V>
  __host__ __device__ void Add(const Context<V>&, int64_t, const Loaded<V>& pack, Part (&parts)[V]) const {
    for (int k = 0; k < V; ++k) {
      const P value = ToWide(pack.values[k]);
      parts[k].sum += value;
      parts[k].squares += value * value;
    }
  }
  __host__ __device__ static void Take(State& s, Part& part) {
    s.sum += static_cast<double>(part.sum);
    s.squares += static_cast<double>(part.squares);
    part = {};
  }
  __host__ __device__ static void Join(State& s, const State& later) {
    s.sum += later.sum;
    s.squares += later.squares;
  }
  __host__ __device__ void Finish(int64_t c, const State& s) const { out.Set(c, s.sum, s.squares); }
};

}  // namespace moka::cuda
