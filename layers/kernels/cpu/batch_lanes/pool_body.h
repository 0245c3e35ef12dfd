// Max pooling of tile.h for one width of registers. Included by one source for each width.
#pragma once

#include "layers/kernels/cpu/batch_lanes/tile.h"
#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::batch_lanes {

// The largest values so far, and where in the window they were found.
template <class V>
struct Largest;
// Values of the lanes whose argmax is a given position, 0 in the others.
template <class V>
struct Chosen;

// Positions are kept as floats' bits, so that AVX2 blends both values by one mask; they are packed to bytes at the end.
template <>
struct Largest<winograd::Lanes8> {
  __m256 value;
  __m256 position;

  static MOKA_INLINE __m256 At(int position) { return _mm256_castsi256_ps(_mm256_set1_epi32(position)); }
  MOKA_INLINE void Start(const float* x, int at) {
    value = _mm256_load_ps(x);
    position = At(at);
  }
  MOKA_INLINE void Take(const float* x, int at) {
    const __m256 other = _mm256_load_ps(x);
    const __m256 larger = _mm256_cmp_ps(other, value, _CMP_GT_OQ);
    value = _mm256_blendv_ps(value, other, larger);
    position = _mm256_blendv_ps(position, At(at), larger);
  }
  MOKA_INLINE void Store(float* y, uint8_t* argmax) const {
    _mm256_store_ps(y, value);
    const __m256i words = _mm256_castps_si256(position);
    const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(argmax), _mm_packus_epi16(halves, halves));
  }
};

template <>
struct Chosen<winograd::Lanes8> {
  __m256i argmax;
  __m256 dy;

  MOKA_INLINE Chosen(const uint8_t* a, const float* y)
      : argmax(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(a)))), dy(_mm256_load_ps(y)) {}
  MOKA_INLINE winograd::Lanes8 At(int position) const {
    return {_mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(argmax, _mm256_set1_epi32(position))), dy)};
  }
};

#if defined(__AVX512F__)
// AVX-512 has masks of their own kind, so positions stay integers.
template <>
struct Largest<winograd::Lanes16> {
  __m512 value;
  __m512i position;

  MOKA_INLINE void Start(const float* x, int at) {
    value = _mm512_load_ps(x);
    position = _mm512_set1_epi32(at);
  }
  MOKA_INLINE void Take(const float* x, int at) {
    const __m512 other = _mm512_load_ps(x);
    const __mmask16 larger = _mm512_cmp_ps_mask(other, value, _CMP_GT_OQ);
    value = _mm512_mask_mov_ps(value, larger, other);
    position = _mm512_mask_set1_epi32(position, larger, at);
  }
  MOKA_INLINE void Store(float* y, uint8_t* argmax) const {
    _mm512_store_ps(y, value);
    _mm_store_si128(reinterpret_cast<__m128i*>(argmax), _mm512_maskz_cvtepi32_epi8(0xFFFF, position));
  }
};

template <>
struct Chosen<winograd::Lanes16> {
  __m512i argmax;
  __m512 dy;

  MOKA_INLINE Chosen(const uint8_t* a, const float* y)
      : argmax(_mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_load_si128(reinterpret_cast<const __m128i*>(a)))),
        dy(_mm512_load_ps(y)) {}
  MOKA_INLINE winograd::Lanes16 At(int position) const {
    return {_mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(argmax, _mm512_set1_epi32(position)), dy)};
  }
};
#endif

// The part of a window that lies inside.
struct Inside {
  int64_t begin;
  int64_t end;
  MOKA_INLINE Inside(int64_t start, int64_t kernel, int64_t size)
      : begin(start < 0 ? -start : 0), end(start + kernel > size ? size - start : kernel) {}
};

// Every lane is an image: no lane looks at its neighbours, and the argmax is one byte an image.
template <class V>
void PoolForward(const PoolPlane& p) {
  float* y = p.y;
  uint8_t* argmax = p.argmax;
  for (int64_t h = 0; h < p.out_height; ++h) {
    const int64_t top = h * p.stride_height - p.pad_top;
    const Inside rows(top, p.kernel_height, p.height);
    for (int64_t w = 0; w < p.out_width; ++w, y += V::kLanes, argmax += V::kLanes) {
      const int64_t left = w * p.stride_width - p.pad_left;
      const Inside columns(left, p.kernel_width, p.width);
      const float* window = p.x + (top * p.width + left) * V::kLanes;
      const auto at = [&](int64_t i, int64_t j) { return window + (i * p.width + j) * V::kLanes; };
      Largest<V> largest;
      largest.Start(at(rows.begin, columns.begin), static_cast<int>(rows.begin * p.kernel_width + columns.begin));
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        for (int64_t j = columns.begin; j < columns.end; ++j) {
          largest.Take(at(i, j), static_cast<int>(i * p.kernel_width + j));
        }
      }
      largest.Store(y, argmax);
    }
  }
}

// dx of one plane; windows that meet are added up.
// Each position of the window is written: dy where it is the argmax, 0 elsewhere, which needs no scatter by lanes.
// Windows that do not meet are stored without being read.
template <class V, bool kMeet>
MOKA_INLINE void PoolBackwardAll(const PoolPlane& p) {
  const float* dy = p.dy;
  const uint8_t* argmax = p.chosen;
  if (p.clears) {
    for (int64_t i = 0; i < p.height * p.width; ++i) V::Zero().Store(p.dx + i * V::kLanes);
  }
  for (int64_t h = 0; h < p.out_height; ++h) {
    const int64_t top = h * p.stride_height - p.pad_top;
    const Inside rows(top, p.kernel_height, p.height);
    for (int64_t w = 0; w < p.out_width; ++w, dy += V::kLanes, argmax += V::kLanes) {
      const int64_t left = w * p.stride_width - p.pad_left;
      const Inside columns(left, p.kernel_width, p.width);
      const Chosen<V> chosen(argmax, dy);
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        float* dx = p.dx + ((top + i) * p.width + left) * V::kLanes;
        for (int64_t j = columns.begin; j < columns.end; ++j) {
          const V value = chosen.At(static_cast<int>(i * p.kernel_width + j));
          float* to = dx + j * V::kLanes;
          (kMeet ? V::Load(to) + value : value).Store(to);
        }
      }
    }
  }
}

template <class V>
void PoolBackward(const PoolPlane& p) {
  const bool meet = p.stride_height < p.kernel_height || p.stride_width < p.kernel_width;
  if (meet) return PoolBackwardAll<V, true>(p);
  PoolBackwardAll<V, false>(p);
}

}  // namespace moka::batch_lanes
#endif
