// A launcher of what is done to each element by values of its channel. Channels last, a thread comes to the same V
// channels again and again: it takes their values once and has two packs on their way at a time.
//
// F has
//   template <int V> struct Context                                  what a thread keeps of V channels
//   template <int V> Context<V> Enter(int64_t c, bool is_one) const  of c .. c+V-1, of c alone if is_one
//   template <int V> struct Loaded
//   template <int V> Loaded<V> Load(const Context<V>&, int64_t i) const             the V elements from place i on
//   template <int V> void Store(const Context<V>&, int64_t i, const Loaded<V>&) const
#pragma once

#include <numeric>

#include "layers/kernels/cuda/channel_sums.cuh"

namespace moka::cuda {

// Steps of a grid are whole multiples of a position's channels.
template <int V, Launchable F>
__global__ void __launch_bounds__(kElementThreads) LastChannelKernel(F f, int64_t groups, int64_t packs) {
  const int64_t step = int64_t{gridDim.x} * kElementThreads;
  int64_t i = int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i >= packs) return;
  int64_t whole = i;
  const auto context = f.template Enter<V>(Divide(whole, groups) * V, false);
  for (; i + step < packs; i += 2 * step) {
    const auto first = f.template Load<V>(context, i * V);
    const auto second = f.template Load<V>(context, (i + step) * V);
    f.template Store<V>(context, i * V, first);
    f.template Store<V>(context, (i + step) * V, second);
  }
  if (i < packs) f.template Store<V>(context, i * V, f.template Load<V>(context, i * V));
}

// Pack by pack, with values of its own.
template <int V, class F>
struct ChannelPackEach {
  F f;
  ChannelMap map;
  __host__ __device__ void operator()(int64_t i) const {
    const auto context = f.template Enter<V>(map.Channel(i * V), !map.is_last);
    f.template Store<V>(context, i * V, f.template Load<V>(context, i * V));
  }
};

// Blocks whose threads are whole positions.
inline int64_t BlocksOfPositions(const ChannelMap& map, int pack) {
  const int64_t groups = map.channels / pack;
  return groups / std::gcd(groups, int64_t{kElementThreads});
}
// Whether threads can come to the same channels again and again.
inline bool StreamsLast(const ChannelMap& map, int pack) {
  return map.is_last && BlocksOfPositions(map, pack) <= kMaxBlocks;
}

template <int V, class F>
void LaunchLastChannels(Stream& stream, const ChannelMap& map, const F& f) {
  const int64_t packs = map.Count() / V;
  const int64_t unit = BlocksOfPositions(map, V);
  const int64_t wanted = std::min((packs + kElementThreads - 1) / kElementThreads, kMaxBlocks);
  const int64_t blocks = std::max<int64_t>(wanted / unit, 1) * unit;
  LastChannelKernel<V>
      <<<static_cast<unsigned>(blocks), kElementThreads, 0, NativeStream(stream)>>>(f, map.channels / V, packs);
  CheckLaunch(stream);
}

// All elements of `map`. Requires: V neighbours are of one channel, or channels last and V of them.
template <int V, class F>
void ForEachOfChannels(Stream& stream, const ChannelMap& map, const F& f) {
  const int64_t packs = map.Count() / V;
  if (packs == 0) return;
  if (stream.native() == nullptr || !StreamsLast(map, V)) return ForEach(stream, packs, ChannelPackEach<V, F>{f, map});
  LaunchLastChannels<V>(stream, map, f);
}

// The same of channels that lie last, without kernels for others. Requires: StreamsLast, and an element at least.
template <int V, class F>
void ForEachOfLastChannels(Stream& stream, const ChannelMap& map, const F& f) {
  if (stream.native() != nullptr) return LaunchLastChannels<V>(stream, map, f);
  stream.Rehearse([f, map] {
    const ChannelPackEach<V, F> each{f, map};
    for (int64_t i = 0; i < map.Count() / V; ++i) each(i);
  });
}

}  // namespace moka::cuda
