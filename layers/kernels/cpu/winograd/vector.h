// Registers of floats of two widths under one set of names, so that the Winograd kernels exist once. A source that
// includes this is compiled with the instruction set's flags and must use nothing that other sources might share: no
// standard templates, only what is inlined or of internal linkage.
#pragma once

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#include <cstdint>

namespace moka::winograd {

#define MOKA_INLINE inline __attribute__((always_inline))

MOKA_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MOKA_INLINE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Values of bfloat16 as bits.
using BrainBits = uint16_t;

// Eight lanes: AVX2 with fused multiply-adds.
struct Lanes8 {
  static constexpr int kLanes = 8;
  static constexpr int kRegisters = 16;
  __m256 v;

  static MOKA_INLINE Lanes8 Zero() { return {_mm256_setzero_ps()}; }
  // Loads and stores are of kLanes floats at multiples of their own size.
  static MOKA_INLINE Lanes8 Load(const float* p) { return {_mm256_load_ps(p)}; }
  static MOKA_INLINE Lanes8 Load(const BrainBits* p) {
    const __m128i halves = _mm_load_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16))};
  }
  static MOKA_INLINE Lanes8 LoadUnaligned(const float* p) { return {_mm256_loadu_ps(p)}; }
  // One float in every lane.
  static MOKA_INLINE Lanes8 Broadcast(const float* p) { return {_mm256_broadcast_ss(p)}; }
  static MOKA_INLINE Lanes8 All(float f) { return {_mm256_set1_ps(f)}; }
  MOKA_INLINE void Store(float* p) const { _mm256_store_ps(p, v); }
  // Rounds to nearest, ties to even; a NaN stays one (core/half.h).
  MOKA_INLINE void Store(BrainBits* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i tie = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(tie, _mm256_set1_epi32(0x7FFF))), 16);
    const __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, nan, is_nan);
    const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_store_si128(static_cast<__m128i*>(static_cast<void*>(p)), halves);
  }
  MOKA_INLINE void StoreUnaligned(float* p) const { _mm256_storeu_ps(p, v); }
  // Past the caches: for results that nobody reads soon.
  MOKA_INLINE void Stream(float* p) const { _mm256_stream_ps(p, v); }
  // to[0..3]: the sums of the lanes of four vectors, each in the same order.
  static MOKA_INLINE void Sums(const Lanes8 (&x)[4], float* to) {
    const __m256 quarters = _mm256_hadd_ps(_mm256_hadd_ps(x[0].v, x[1].v), _mm256_hadd_ps(x[2].v, x[3].v));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(quarters), _mm256_extractf128_ps(quarters, 1)));
  }
};
MOKA_INLINE Lanes8 operator+(Lanes8 a, Lanes8 b) { return {_mm256_add_ps(a.v, b.v)}; }
MOKA_INLINE Lanes8 operator-(Lanes8 a, Lanes8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
MOKA_INLINE Lanes8 operator*(Lanes8 a, Lanes8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
// a*b + c and c - a*b, rounded once.
MOKA_INLINE Lanes8 Fma(Lanes8 a, Lanes8 b, Lanes8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
MOKA_INLINE Lanes8 Fnma(Lanes8 a, Lanes8 b, Lanes8 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
MOKA_INLINE Lanes8 Max(Lanes8 a, Lanes8 b) { return {_mm256_max_ps(a.v, b.v)}; }

#if defined(__AVX512F__)
// Sixteen lanes: AVX-512.
struct Lanes16 {
  static constexpr int kLanes = 16;
  static constexpr int kRegisters = 32;
  __m512 v;

  static MOKA_INLINE Lanes16 Zero() { return {_mm512_setzero_ps()}; }
  static MOKA_INLINE Lanes16 Load(const float* p) { return {_mm512_load_ps(p)}; }
  static MOKA_INLINE Lanes16 Load(const BrainBits* p) {
    const __m256i halves = _mm256_load_si256(static_cast<const __m256i*>(static_cast<const void*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
  }
  static MOKA_INLINE Lanes16 LoadUnaligned(const float* p) { return {_mm512_loadu_ps(p)}; }
  static MOKA_INLINE Lanes16 Broadcast(const float* p) { return {_mm512_set1_ps(*p)}; }
  static MOKA_INLINE Lanes16 All(float f) { return {_mm512_set1_ps(f)}; }
  MOKA_INLINE void Store(float* p) const { _mm512_store_ps(p, v); }
  MOKA_INLINE void Store(BrainBits* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i tie = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(tie, _mm512_set1_epi32(0x7FFF))), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i words = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));
    _mm256_store_si256(static_cast<__m256i*>(static_cast<void*>(p)), _mm512_cvtepi32_epi16(words));
  }
  MOKA_INLINE void StoreUnaligned(float* p) const { _mm512_storeu_ps(p, v); }
  MOKA_INLINE void Stream(float* p) const { _mm512_stream_ps(p, v); }
  // The masked form of the halves: the plain one draws a false warning from GCC 12.
  MOKA_INLINE Lanes8 Halves() const {
    return {_mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xFF, v, 0), _mm512_maskz_extractf32x8_ps(0xFF, v, 1))};
  }
  static MOKA_INLINE void Sums(const Lanes16 (&x)[4], float* to) {
    Lanes8::Sums({x[0].Halves(), x[1].Halves(), x[2].Halves(), x[3].Halves()}, to);
  }
};
MOKA_INLINE Lanes16 operator+(Lanes16 a, Lanes16 b) { return {_mm512_add_ps(a.v, b.v)}; }
MOKA_INLINE Lanes16 operator-(Lanes16 a, Lanes16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
MOKA_INLINE Lanes16 operator*(Lanes16 a, Lanes16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
MOKA_INLINE Lanes16 Fma(Lanes16 a, Lanes16 b, Lanes16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
MOKA_INLINE Lanes16 Fnma(Lanes16 a, Lanes16 b, Lanes16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
// The masked form here too: the plain one draws a false warning from GCC 12.
MOKA_INLINE Lanes16 Max(Lanes16 a, Lanes16 b) { return {_mm512_maskz_max_ps(0xFFFF, a.v, b.v)}; }
#endif

// The numbers 0, 1, .. of a list of template arguments. Loops are unrolled by such lists, because the compiler
// keeps an array in registers only if its indices are constants from the start.
template <int... kIndices>
struct Indices {};
template <int kCount, int... kIndices>
struct IndicesTo : IndicesTo<kCount - 1, kCount - 1, kIndices...> {};
template <int... kIndices>
struct IndicesTo<0, kIndices...> {
  using Type = Indices<kIndices...>;
};

}  // namespace moka::winograd
#endif
