// Rounding of floats to words of pairs. Included by gemm_pairs_<instructions>.cpp only, as gemm_tile.h is.
#pragma once

#ifdef __AVX512BF16__
#include <immintrin.h>

#include <cstdint>

namespace moka::gemm {
namespace {

// To nearest, halves to even, as the processor does it: denormals become 0. n is even.
inline void RoundToPairs(const float* from, int64_t n, float* words) {
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t left = n - i < 16 ? n - i : 16;
    const auto mask = static_cast<__mmask16>((1U << left) - 1);
    const __m256bh halves = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + i));
    _mm256_mask_storeu_epi16(words + i / 2, mask, reinterpret_cast<__m256i>(halves));
  }
}

}  // namespace
}  // namespace moka::gemm
#endif
