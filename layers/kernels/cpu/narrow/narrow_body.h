// The loops of kernel row "narrow" (narrow_lanes.h), over vectors of 8 or 16 floats; included by one source for each
// instruction set.
#pragma once

#include "layers/kernels/cpu/narrow/narrow_lanes.h"
#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::narrow {
namespace {

using winograd::Lanes8;

MOKA_INLINE __m256 Fold(Lanes8 a) { return a.v; }
#if defined(__AVX512F__)
using winograd::Lanes16;
MOKA_INLINE __m256 Fold(Lanes16 a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
#endif

// The sums of the lanes of eight vectors.
// Neighbouring lanes are added in pairs: six such additions and one of halves for eight sums, which end side by side.
template <class V>
MOKA_INLINE __m256 SumsOf(const V (&a)[kPixels]) {
  const __m256 a01 = _mm256_hadd_ps(Fold(a[0]), Fold(a[1]));
  const __m256 a23 = _mm256_hadd_ps(Fold(a[2]), Fold(a[3]));
  const __m256 a45 = _mm256_hadd_ps(Fold(a[4]), Fold(a[5]));
  const __m256 a67 = _mm256_hadd_ps(Fold(a[6]), Fold(a[7]));
  const __m256 low = _mm256_hadd_ps(a01, a23);
  const __m256 high = _mm256_hadd_ps(a45, a67);
  return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

// Results [first, first + kPixels) of kChannels channels from `channel` on.
// Each load of weights serves kPixels results and each load of dy kChannels of them; the lanes, dy's channels, are
// added only when all taps and blocks are in.
template <class V, int kChannels>
MOKA_INLINE void MakePixels(const Row& r, int64_t first, int64_t channel) {
  V sums[kChannels][kPixels];
#pragma GCC unroll 4
  for (int c = 0; c < kChannels; ++c) {
#pragma GCC unroll 8
    for (int i = 0; i < kPixels; ++i) sums[c][i] = V::Zero();
  }
  for (int64_t t = 0; t < r.rows; ++t) {
    const float* w = r.w[t] + channel * V::kLanes;
    for (int64_t j = 0; j < r.taps; ++j) {
      const float* y = r.y[t] + (first - j) * V::kLanes;
      for (int64_t b = 0; b < r.blocks; ++b, y += r.block_stride, w += r.channels * V::kLanes) {
        V right[kChannels];
#pragma GCC unroll 4
        for (int c = 0; c < kChannels; ++c) right[c] = V::Load(w + c * V::kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kPixels; ++i) {
          const V left = V::Load(y + i * V::kLanes);
#pragma GCC unroll 4
          for (int c = 0; c < kChannels; ++c) sums[c][i] = Fma(left, right[c], sums[c][i]);
        }
      }
    }
  }
  const int64_t count = winograd::Smaller(kPixels, r.count - first);
#pragma GCC unroll 4
  for (int c = 0; c < kChannels; ++c) {
    alignas(32) float made[kPixels];
    _mm256_store_ps(made, SumsOf(sums[c]));
    float* x = r.x + (channel + c) * r.channel_stride + first * r.step;
    for (int64_t i = 0; i < count; ++i) x[i * r.step] = made[i];
  }
}

// As many channels at a time as there are registers for.
template <class V>
void MakeRow(const Row& r) {
  constexpr int kMost = V::kRegisters / (kPixels + 2);
  for (int64_t first = 0; first < r.count; first += kPixels) {
    int64_t channel = 0;
    if constexpr (kMost == 3) {
      for (; r.channels - channel >= 3; channel += 3) MakePixels<V, 3>(r, first, channel);
      for (; r.channels - channel >= 2; channel += 2) MakePixels<V, 2>(r, first, channel);
    }
    for (; channel < r.channels; ++channel) MakePixels<V, 1>(r, first, channel);
  }
}

template <class V>
constexpr Lanes kLanesOf = {.lanes = V::kLanes, .row = MakeRow<V>};

}  // namespace
}  // namespace moka::narrow
#endif
