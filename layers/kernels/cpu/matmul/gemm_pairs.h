// Words of pairs from floats and from rows of bfloat16, and sums back to rows. Included by
// gemm_pairs_<instructions>.cpp only, as gemm_tile.h is.
#pragma once

#ifdef __AVX512BF16__
#include <immintrin.h>

#include <cstdint>

#include "layers/kernels/cpu/matmul/gemm.h"

namespace moka::gemm {
namespace {

inline __mmask16 MaskOf(int64_t left) { return static_cast<__mmask16>(left < 16 ? (1U << left) - 1 : 0xFFFFU); }

// To nearest, halves to even, as the processor does it: denormals become 0. n is even.
inline void RoundToPairs(const float* from, int64_t n, float* words) {
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 mask = MaskOf(n - i);
    const __m256bh halves = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + i));
    _mm256_mask_storeu_epi16(words + i / 2, mask, reinterpret_cast<__m256i>(halves));
  }
}

inline __m512i Wide(__mmask16 mask, const uint16_t* from) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
}

inline void Interleave(const Interleaving& t) {
  for (int64_t pair = 0; pair < t.pairs; ++pair) {
    const uint16_t* const even = t.rows[2 * pair] + t.first;
    const uint16_t* const odd = t.rows[2 * pair + 1] + t.first;
    float* const to = t.words + pair * t.width;
    for (int64_t i = 0; i < t.width; i += 16) {
      const __mmask16 mask = MaskOf(t.n > i ? t.n - i : 0);
      const __m512i words = _mm512_or_si512(Wide(mask, even + i), _mm512_slli_epi32(Wide(mask, odd + i), 16));
      _mm512_mask_storeu_epi32(to + i, MaskOf(t.width - i), words);
    }
  }
}

inline void FinishRows(const Finish& t) {
  for (int64_t row = 0; row < t.rows; ++row) {
    for (int64_t i = 0; i < t.n; i += 16) {
      const __mmask16 mask = MaskOf(t.n - i);
      __m512 y = _mm512_maskz_loadu_ps(mask, t.sums + row * t.sums_stride + i);
      if (t.bias != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, t.bias + i));
      if (t.summand != nullptr) {
        const __m512i halves = _mm512_slli_epi32(Wide(mask, t.summand + row * t.stride + i), 16);
        y = _mm512_add_ps(y, _mm512_castsi512_ps(halves));
      }
      if (t.relu) y = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ), y);
      const __m256bh halves = _mm512_cvtneps_pbh(y);
      _mm256_mask_storeu_epi16(t.to + row * t.stride + i, mask, reinterpret_cast<__m256i>(halves));
    }
  }
}

}  // namespace
}  // namespace moka::gemm
#endif
