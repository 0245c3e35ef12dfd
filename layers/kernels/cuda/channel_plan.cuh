// Images [N,C,..] as channels and positions, channels last or plain, and how sums over the positions of each channel
// are shared among blocks and threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/kernel.h"
#include "layers/kernels/cuda/divide.cuh"

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
// them, and, channels last, no longer than a thread's float32 sums are as good as the terms.
struct ChannelPlan {
  static constexpr int kThreads = 256;
  static constexpr int64_t kBlocks = 132 * 8;
  static constexpr int64_t kMostRows = 64;  // of a thread

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
    const int64_t most = kMostRows * lanes;
    if (map.is_last) chunks = std::max(chunks, (map.PerChannel() + most - 1) / most);
    chunk_rows = (map.PerChannel() + chunks - 1) / chunks;
  }
  template <class State>
  int64_t ScratchBytes() const {
    return chunks * map.channels * static_cast<int64_t>(sizeof(State));
  }
};

}  // namespace moka::cuda
