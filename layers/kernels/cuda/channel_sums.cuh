// Sums over all positions of each channel of images [N,C,..], channels last or plain. Channels last, a thread goes down
// the rows of as many neighbouring channels as it reads at once; blocks share the rows in chunks. Plain, a block has a
// part of a channel. Either leaves a state a chunk and channel; the chunks of a channel are joined at the end. Every
// order is fixed, and the same on a rehearsed GPU.
//
// A thread loads a few rows before it uses the first, adds up a few dozen, in float32 where images are of half numbers,
// and makes a state in double of that.
//
// F has a State (trivially copyable; State{} is what nothing adds up to), a Part, which is likewise, and
//   static constexpr int kAhead                              rows that are loaded before the first is used
//   static constexpr int kBlocks                             to be on a multiprocessor at once (4: 64 registers)
//   template <int V> struct Context                          what a thread keeps of channels c .. c+V-1
//   template <int V> Context<V> Enter(int64_t c) const
//   template <int V> struct Loaded                           the V elements from place i on
//   template <int V> Loaded<V> Load(const Context<V>&, int64_t i) const
//   template <int V> void Add(const Context<V>&, int64_t i, const Loaded<V>&, Part (&)[V]) const
//   static void Take(State&, Part&)                          adds the part, which is empty then
//   static void Join(State&, const State& later)
//   void Finish(int64_t c, const State&) const
//   using End                                                F or the base of it that has State, Join and Finish
#pragma once

#include <cstdint>

#include "layers/kernels/cuda/channel_plan.cuh"
#include "layers/kernels/cuda/launch.cuh"

namespace moka::cuda {

// Computes the sums of lane `lane` of a chunk for channels c .. c+V-1.
template <int V, class F>
__host__ __device__ void SumLane(const F& f, const ChannelPlan& plan, int64_t chunk, int64_t c, int lane,
                                 typename F::State* states) {
  constexpr int kAhead = F::kAhead;
  const auto context = f.template Enter<V>(c);
  const int64_t begin = chunk * plan.chunk_rows;
  const int64_t all = plan.map.PerChannel();
  const int64_t end = begin + plan.chunk_rows < all ? begin + plan.chunk_rows : all;
  const int64_t step = plan.lanes * plan.map.channels;
  const int64_t stop = end * plan.map.channels;
  int64_t i = (begin + lane) * plan.map.channels + c;
  typename F::Part parts[V] = {};
  for (; i + (kAhead - 1) * step < stop; i += kAhead * step) {
    typename F::template Loaded<V> loaded[kAhead];
    for (int a = 0; a < kAhead; ++a) loaded[a] = f.template Load<V>(context, i + a * step);
    for (int a = 0; a < kAhead; ++a) f.template Add<V>(context, i + a * step, loaded[a], parts);
  }
  for (; i < stop; i += step) f.template Add<V>(context, i, f.template Load<V>(context, i), parts);
  for (int k = 0; k < V; ++k) {
    states[k] = typename F::State{};
    F::Take(states[k], parts[k]);
  }
}

template <int V, class F>
__global__ void __launch_bounds__(ChannelPlan::kThreads, F::kBlocks)
    ChannelKernel(F f, ChannelPlan plan, typename F::State* partial) {
  using State = typename F::State;
  __shared__ alignas(16) unsigned char room[sizeof(State) * ChannelPlan::kThreads * V];
  State* const states = reinterpret_cast<State*>(room);  // [lanes][width * V]
  const int thread = static_cast<int>(threadIdx.x);
  const int columns = plan.width * V;
  const int64_t first = int64_t{blockIdx.x} * columns;
  const int64_t chunk = blockIdx.y;
  const int64_t c = first + thread % plan.width * V;
  if (c < plan.map.channels) SumLane<V>(f, plan, chunk, c, thread / plan.width, states + thread * V);
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
    typename F::Part one[1] = {};
    const int64_t place = (j / map.plane * map.channels + c) * map.plane + j % map.plane;
    const auto context = f.template Enter<1>(c);
    f.template Add<1>(context, place, f.template Load<1>(context, place), one);
    F::Take(state, one[0]);
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

// The states of all chunks, channels last. Requires: channels is a multiple of V.
template <int V, class F>
void SumChunksOfLast(Stream& stream, const ChannelPlan& plan, typename F::State* partial, const F& f) {
  if (stream.native() == nullptr) {
    stream.Rehearse([f, plan, partial] { RehearseChannels<V>(f, plan, partial); });
    return;
  }
  const int64_t columns = int64_t{plan.width} * V;
  const dim3 grid(static_cast<unsigned>((plan.map.channels + columns - 1) / columns),
                  static_cast<unsigned>(plan.chunks));
  ChannelKernel<V><<<grid, ChannelPlan::kThreads, 0, NativeStream(stream)>>>(f, plan, partial);
  CheckLaunch(stream);
}

// Joins the chunks. End: what F's sums become, State, Join and Finish.
template <class End>
void EndChannels(Stream& stream, const ChannelPlan& plan, typename End::State* partial, const End& end) {
  ForEachRow(stream, plan.map.channels, plan.chunks, ChannelEnd<End>{end, plan.map.channels, partial});
}

// partial: plan.ScratchBytes of scratch, for a plan made with V. Requires: channels is a multiple of V if they lie
// last.
template <int V, class F>
void SumChannels(Stream& stream, const ChannelPlan& plan, typename F::State* partial, const F& f) {
  if (plan.map.is_last) {
    SumChunksOfLast<V>(stream, plan, partial, f);
  } else {
    ForEachRow(stream, plan.chunks * plan.map.channels, plan.chunk_rows, ChannelRow<F>{f, plan, partial});
  }
  EndChannels<typename F::End>(stream, plan, partial, f);
}

// The same of channels that lie last, without kernels for others.
template <int V, class F>
void SumLastChannels(Stream& stream, const ChannelPlan& plan, typename F::State* partial, const F& f) {
  SumChunksOfLast<V>(stream, plan, partial, f);
  EndChannels<typename F::End>(stream, plan, partial, f);
}

}  // namespace moka::cuda
