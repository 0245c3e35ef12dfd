// The launchers of every kernel of Moka's own for GPUs. A kernel is a functor: a plain struct of pointers and sizes
// whose __host__ __device__ members say what one element, row or column is. The launchers decide how threads share the
// work; on a rehearsed GPU they go through the same threads one after another, so what is tested there is the very
// functor, with the same order of sums.
#pragma once

#include "layers/kernels/cuda/launch_elements.cuh"

namespace moka::cuda {

// Rows ---------------------------------------------------------------------------------------------------------------

// F has a State (trivially copyable) and
//   State Start() const                                  what nothing adds up to
//   void Add(int64_t row, int64_t i, State&) const       element i of a row
//   static void Join(State&, const State& later)
//   void Write(int64_t row, int64_t i, const State&) const   once the row is summed, for each element
//   void Finish(int64_t row, const State&) const             and once a row
inline constexpr int kRowThreads = 256;

// The threads of a block, a power of two, are chosen at the launch: a second kernel for short rows would double the
// time of compilation.
template <class F>
__global__ void __launch_bounds__(kRowThreads) RowKernel(F f, int64_t rows, int64_t length) {
  using State = typename F::State;
  extern __shared__ __align__(16) unsigned char row_room[];  // a State for each thread
  State* const states = reinterpret_cast<State*>(row_room);
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    State mine = f.Start();
    for (int64_t i = thread; i < length; i += threads) f.Add(row, i, mine);
    states[thread] = mine;
    __syncthreads();
    for (int reach = threads / 2; reach > 0; reach /= 2) {
      if (thread < reach) F::Join(states[thread], states[thread + reach]);
      __syncthreads();
    }
    const State all = states[0];
    for (int64_t i = thread; i < length; i += threads) f.Write(row, i, all);
    if (thread == 0) f.Finish(row, all);
    __syncthreads();  // states are those of the next row from here on
  }
}

template <class F>
void RehearseRows(const F& f, int64_t rows, int64_t length, int threads) {
  typename F::State states[kRowThreads];
  for (int64_t row = 0; row < rows; ++row) {
    for (int thread = 0; thread < threads; ++thread) {
      states[thread] = f.Start();
      for (int64_t i = thread; i < length; i += threads) f.Add(row, i, states[thread]);
    }
    for (int reach = threads / 2; reach > 0; reach /= 2) {
      for (int thread = 0; thread < reach; ++thread) F::Join(states[thread], states[thread + reach]);
    }
    for (int64_t i = 0; i < length; ++i) f.Write(row, i, states[0]);
    f.Finish(row, states[0]);
  }
}

// Rows of `length` elements, each summed up by one block of threads; an empty row is Start().
template <Launchable F>
void ForEachRow(Stream& stream, int64_t rows, int64_t length, const F& f) {
  constexpr int64_t kShort = 128;
  constexpr int64_t kMaxSharedBytes = 48 << 10;  // what a launch may ask for unasked
  static_assert(int64_t{sizeof(typename F::State)} * kRowThreads <= kMaxSharedBytes);
  if (rows == 0) return;
  const int threads = length <= kShort ? 32 : kRowThreads;
  if (stream.native() == nullptr) {
    stream.Rehearse([f, rows, length, threads] { RehearseRows(f, rows, length, threads); });
    return;
  }
  const auto blocks = static_cast<unsigned>(std::min(rows, kMaxBlocks));
  RowKernel<<<blocks, threads, sizeof(typename F::State) * static_cast<size_t>(threads), NativeStream(stream)>>>(
      f, rows, length);
  CheckLaunch(stream);
}

}  // namespace moka::cuda
