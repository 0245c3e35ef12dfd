// The multiply step of tile.h: at each point a product of [tiles, input channels] and [input channels, output
// channels], whose accumulators are a group of tiles by one or two vectors of output channels.
#pragma once

#include "layers/kernels/cpu/winograd/narrow_points.h"
#include "layers/kernels/cpu/winograd/tile.h"
#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

// Input channels whose weights (16 KiB for two vectors of 16) stay in the first-level cache while all tiles pass.
inline constexpr int64_t kChunk = 128;

// One vector of weights and one of values a step, and an accumulator for each pair of a tile and a vector.
template <class V>
inline constexpr int kGroupTiles = (V::kRegisters - 3) / kMaxVectors;

// The accumulators of one tile.
template <class V, int kVectors>
struct TileSums {
  V first;
  V second;

  MOKA_INLINE void Start(const float* m, bool adds) {
    first = adds ? V::Load(m) : V::Zero();
    if constexpr (kVectors == 2) second = adds ? V::Load(m + V::kLanes) : V::Zero();
  }
  MOKA_INLINE void Add(const float* value, V u_first, V u_second) {
    const V x = V::Broadcast(value);
    first = Fma(x, u_first, first);
    if constexpr (kVectors == 2) second = Fma(x, u_second, second);
  }
  MOKA_INLINE void Finish(float* m) const {
    first.Store(m);
    if constexpr (kVectors == 2) second.Store(m + V::kLanes);
  }
};

// The register tile: 14 x 2 accumulators of the 32 registers of AVX-512, 6 x 2 of the 16 of AVX2. A step loads two
// vectors of weights and broadcasts one value a tile, and each broadcast is used twice.
template <class V, int kVectors, int... kTile>
MOKA_INLINE void MultiplyTiles(const float* u, const float* v, int64_t channels, float* m, bool adds,
                               Indices<kTile...> /*tiles*/) {
  constexpr int kTiles = sizeof...(kTile);
  TileSums<V, kVectors> sums[kTiles];
  (sums[kTile].Start(m + kTile * kVectors * V::kLanes, adds), ...);
  for (int64_t c = 0; c < channels; c += V::kLanes) {
    const int64_t lanes = channels - c < V::kLanes ? channels - c : V::kLanes;
    for (int64_t i = 0; i < lanes; ++i) {
      const V u_first = V::Load(u);
      const V u_second = kVectors == 2 ? V::Load(u + V::kLanes) : u_first;
      u += kVectors * V::kLanes;
      (sums[kTile].Add(v + kTile * V::kLanes + i, u_first, u_second), ...);
    }
    v += kTiles * V::kLanes;
  }
  (sums[kTile].Finish(m + kTile * kVectors * V::kLanes), ...);
}

// The number of tiles is a template argument, as accumulators must be registers and not an array in memory.
using GroupFunction = void (*)(const float* u, const float* v, int64_t channels, float* m, bool adds);

template <class V, int kVectors, int kTiles>
void MultiplyGroup(const float* u, const float* v, int64_t channels, float* m, bool adds) {
  MultiplyTiles<V, kVectors>(u, v, channels, m, adds, typename IndicesTo<kTiles>::Type{});
}

// MultiplyGroup for 1, 2, .. tiles.
template <class V, int kVectors, int... kTile>
MOKA_INLINE GroupFunction GroupFunctionOf(int64_t tiles, Indices<kTile...> /*tiles*/) {
  static constexpr GroupFunction kFunctions[] = {MultiplyGroup<V, kVectors, kTile + 1>...};
  return kFunctions[tiles - 1];
}

// Channels [c, c + channels) of one point and one kind of tiles.
template <class V>
MOKA_INLINE void MultiplyKind(const MultiplyStep& s, const Tiles& tiles, int64_t p, int64_t c, int64_t channels) {
  const float* u = s.u + p * s.u_stride + (c - s.in_begin) * s.vectors * V::kLanes;
  for (int64_t g = 0; g < tiles.groups; ++g) {
    const int64_t begin = tiles.before + tiles.count * g / tiles.groups;
    const int64_t size = tiles.before + tiles.count * (g + 1) / tiles.groups - begin;
    const float* v = s.v + p * s.v_stride + begin * s.blocks * V::kLanes + c * size;
    float* m = s.m + p * s.m_stride + begin * s.vectors * V::kLanes;
    const typename IndicesTo<kGroupTiles<V>>::Type sizes;
    const GroupFunction function =
        s.vectors == 1 ? GroupFunctionOf<V, 1>(size, sizes) : GroupFunctionOf<V, 2>(size, sizes);
    function(u, v, channels, m, s.adds || c > s.in_begin);
  }
}

// Points are outermost: independent matrix products, of each of which a chunk of weights (kChunk channels) stays in the
// first level while all groups of tiles pass.
template <class V, int kPatch>
void Multiply(const MultiplyStep& s) {
  for (int p = 0; p < kPatch * kPatch; ++p) {
    for (int64_t c = s.in_begin; c < s.in_end; c += kChunk) {
      const int64_t channels = s.in_end - c < kChunk ? s.in_end - c : kChunk;
      for (const Tiles& tiles : *s.tiles) {
        const TileKind& kind = tiles.kind;
        if (TakesPoint(kind.height, p / kPatch) && TakesPoint(kind.width, p % kPatch)) {
          MultiplyKind<V>(s, tiles, p, c, channels);
        }
      }
    }
  }
}

}  // namespace moka::winograd
#endif
