// Sums over all positions of each channel of images [N,C,..], channels last or plain. Channels last, a thread goes down
// the rows of as many neighbouring channels as it reads at once; blocks share the rows in chunks. Plain, a block has a
// part of a channel. Either leaves a state a chunk and channel; the chunks of a channel are joined at the end. Every
// order is fixed, and the same on a rehearsed GPU.
//
// F has a State (trivially copyable; State{} is what nothing adds up to) and
//   template <int V> struct Context                          what a thread keeps of channels c .. c+V-1
//   template <int V> Context<V> Enter(int64_t c) const
//   template <int V> struct Loaded                           the V elements from place i on
//   template <int V> Loaded<V> Load(const Context<V>&, int64_t i) const
//   template <int V> void Add(const Context<V>&, int64_t i, const Loaded<V>&, State (&)[V]) const
//   static void Join(State&, const State& later)
//   void Finish(int64_t c, const State&) const
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/kernel.h"
#include "layers/kernels/cuda/divide.cuh"
#include "layers/kernels/cuda/launch.cuh"

namespace moka::cuda {

struct ChannelMap {
  int64_t images = 1;
  int64_t channels = 1;
  int64_t plane = 1;
  bool is_last = false;

  __host__ __device__ int64_t PerChannel() const { return images * plane; }
  __host__ __device__ int64_t Count() const { return PerChannel() * channels; }
  __host__ __device__ int64_t Channel(int64_t i) const {
    if (!is_last) Divide(i, plane);
    return Divide(i, channels);
  }
  // Whether V neighbours from a multiple of V on are of one channel (plain) or of V whole ones.
  bool Packs(int pack) const { return (is_last ? channels : plane) % pack == 0; }
};

// Requires: rank 2 at least, plain or channels last.
inline ChannelMap ChannelMapOf(const TensorType& type) {
  const Shape& shape = type.shape;
  const int64_t plane = shape.Count(2, shape.rank());
  return {shape[0], shape[1], plane, plane == 1 || !type.layout.is_plain()};
}

// Chunks are as many as give each of an H100's 132 multiprocessors eight blocks, but no shorter than pays for joining
// them.
struct ChannelPlan {
  static constexpr int kThreads = 256;
  static constexpr int64_t kBlocks = 132 * 8;

  ChannelMap map;
  int64_t chunks = 1;
  int64_t chunk_rows = 0;  // positions of a channel in a chunk
  int width = 1;           // groups of channels that a block has side by side
  int lanes = kThreads;    // rows it reads at a time

  ChannelPlan(const ChannelMap& m, int pack) : map(m) {
    const int64_t groups = (map.channels + pack - 1) / pack;
    while (map.is_last && width < 32 && width < groups) width *= 2;
    lanes = kThreads / width;
    const int64_t tiles = map.is_last ? (groups + width - 1) / width : map.channels;
    const int64_t least = map.is_last ? int64_t{16} * lanes : 4096;
    chunks = std::clamp<int64_t>(map.PerChannel() / least, 1, std::max<int64_t>(1, kBlocks / tiles));
    chunk_rows = (map.PerChannel() + chunks - 1) / chunks;
  }
  template <class State>
  int64_t ScratchBytes() const {
    return chunks * map.channels * static_cast<int64_t>(sizeof(State));
  }
};

// Computes the sums of lane `lane` of a chunk for channels c .. c+V-1; two loads are on their way at a time.
template <int V, class F>
__host__ __device__ void SumLane(const F& f, const ChannelPlan& plan, int64_t chunk, int64_t c, int lane,
                                 typename F::State (&states)[V]) {
  for (int k = 0; k < V; ++k) states[k] = typename F::State{};
  const auto context = f.template Enter<V>(c);
  const int64_t begin = chunk * plan.chunk_rows;
  const int64_t all = plan.map.PerChannel();
  const int64_t end = begin + plan.chunk_rows < all ? begin + plan.chunk_rows : all;
  const int64_t step = plan.lanes * plan.map.channels;
  const int64_t stop = end * plan.map.channels;
  int64_t i = (begin + lane) * plan.map.channels + c;
  for (; i + step < stop; i += 2 * step) {
    const auto first = f.template Load<V>(context, i);
    const auto second = f.template Load<V>(context, i + step);
    f.template Add<V>(context, i, first, states);
    f.template Add<V>(context, i + step, second, states);
  }
  if (i < stop) f.template Add<V>(context, i, f.template Load<V>(context, i), states);
}

template <int V, class F>
__global__ void __launch_bounds__(ChannelPlan::kThreads)
    ChannelKernel(F f, ChannelPlan plan, typename F::State* partial) {
  using State = typename F::State;
  __shared__ alignas(16) unsigned char room[sizeof(State) * ChannelPlan::kThreads * V];
  State* const states = reinterpret_cast<State*>(room);  // [lanes][width * V]
  const int thread = static_cast<int>(threadIdx.x);
  const int columns = plan.width * V;
  const int64_t first = int64_t{blockIdx.x} * columns;
  const int64_t chunk = blockIdx.y;
  const int64_t c = first + thread % plan.width * V;
  if (c < plan.map.channels) {
    State mine[V];
    SumLane<V>(f, plan, chunk, c, thread / plan.width, mine);
    for (int k = 0; k < V; ++k) states[thread * V + k] = mine[k];
  }
  __syncthreads();
  for (int column = thread; column < columns && first + column < plan.map.channels; column += ChannelPlan::kThreads) {
    State sum = states[column];
    for (int lane = 1; lane < plan.lanes; ++lane) F::Join(sum, states[lane * columns + column]);
    partial[chunk * plan.map.channels + first + column] = sum;
  }
}

// On the host: the same lanes and the same order of joins, hence the same bits.
template <int V, class F>
void RehearseChannels(const F& f, const ChannelPlan& plan, typename F::State* partial) {
  for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
    for (int64_t c = 0; c < plan.map.channels; c += V) {
      typename F::State* const sums = partial + chunk * plan.map.channels + c;
      for (int lane = 0; lane < plan.lanes; ++lane) {
        typename F::State states[V];
        SumLane<V>(f, plan, chunk, c, lane, states);
        for (int k = 0; k < V; ++k) {
          if (lane == 0) {
            sums[k] = states[k];
          } else {
            F::Join(sums[k], states[k]);
          }
        }
      }
    }
  }
}

// Plain: row chunk * channels + c.
template <class F>
struct ChannelRow {
  F f;
  ChannelPlan plan;
  typename F::State* partial;
  using State = typename F::State;
  __host__ __device__ State Start() const { return State{}; }
  __host__ __device__ void Add(int64_t row, int64_t i, State& state) const {
    const ChannelMap& map = plan.map;
    const int64_t c = row % map.channels;
    const int64_t j = row / map.channels * plan.chunk_rows + i;
    if (j >= map.PerChannel()) return;
    State one[1] = {state};
    const int64_t place = (j / map.plane * map.channels + c) * map.plane + j % map.plane;
    const auto context = f.template Enter<1>(c);
    f.template Add<1>(context, place, f.template Load<1>(context, place), one);
    state = one[0];
  }
  __host__ __device__ static void Join(State& state, const State& later) { F::Join(state, later); }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t row, const State& state) const { partial[row] = state; }
};

template <class F>
struct ChannelEnd {
  F f;
  int64_t channels;
  const typename F::State* partial;
  using State = typename F::State;
  __host__ __device__ State Start() const { return State{}; }
  __host__ __device__ void Add(int64_t c, int64_t chunk, State& state) const {
    F::Join(state, partial[chunk * channels + c]);
  }
  __host__ __device__ static void Join(State& state, const State& later) { F::Join(state, later); }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t c, const State& state) const { f.Finish(c, state); }
};

// partial: plan.ScratchBytes of scratch, for a plan made with V. Requires: channels is a multiple of V if they lie
// last.
template <int V, class F>
void SumChannels(Stream& stream, const ChannelPlan& plan, typename F::State* partial, const F& f) {
  if (!plan.map.is_last) {
    ForEachRow(stream, plan.chunks * plan.map.channels, plan.chunk_rows, ChannelRow<F>{f, plan, partial});
  } else if (stream.native() == nullptr) {
    stream.Rehearse([f, plan, partial] { RehearseChannels<V>(f, plan, partial); });
  } else {
    const int64_t columns = int64_t{plan.width} * V;
    const dim3 grid(static_cast<unsigned>((plan.map.channels + columns - 1) / columns),
                    static_cast<unsigned>(plan.chunks));
    ChannelKernel<V><<<grid, ChannelPlan::kThreads, 0, NativeStream(stream)>>>(f, plan, partial);
    CheckLaunch(stream);
  }
  ForEachRow(stream, plan.map.channels, plan.chunks, ChannelEnd<F>{f, plan.map.channels, partial});
}

}  // namespace moka::cuda
