// bfloat16 is shifts and additions of whole numbers, which compilers make into vectors; float16 has instructions of its
// own (F16C) on every processor with AVX2.
#include "core/half_spans.h"

#include "core/error.h"
#include "core/half.h"
#include "core/vector_clones.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moka {
namespace {

MOKA_VECTOR_CLONES void WidenBFloat16(const BFloat16* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = FloatOfBFloat16(from[i].bits);
}

MOKA_VECTOR_CLONES void NarrowBFloat16(const float* from, int64_t count, BFloat16* to) {
  for (int64_t i = 0; i < count; ++i) to[i].bits = BFloat16OfFloat(from[i]);
}

#if defined(__x86_64__)
// Asked for by the name of another extension, as Clang 14 does not know this one's.
const bool kHasF16c = __builtin_cpu_supports("avx2") != 0;

// Returns how many were converted; the rest is shorter than a register.
__attribute__((target("avx,f16c"))) int64_t WidenByEight(const Half* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(from + i)));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

__attribute__((target("avx,f16c"))) int64_t NarrowByEight(const float* from, int64_t count, Half* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(to + i)), halves);
  }
  return i;
}
#else
constexpr bool kHasF16c = false;
int64_t WidenByEight(const Half*, int64_t, float*) { return 0; }
int64_t NarrowByEight(const float*, int64_t, Half*) { return 0; }
#endif

void WidenHalf(const Half* from, int64_t count, float* to) {
  for (int64_t i = kHasF16c ? WidenByEight(from, count, to) : 0; i < count; ++i) to[i] = FloatOfHalf(from[i].bits);
}

void NarrowHalf(const float* from, int64_t count, Half* to) {
  for (int64_t i = kHasF16c ? NarrowByEight(from, count, to) : 0; i < count; ++i) to[i].bits = HalfOfFloat(from[i]);
}

}  // namespace

void Widen(DType half, const void* from, int64_t count, float* to) {
  Require(IsHalf(half), "Widen reads a half type");
  if (half == DType::kBFloat16) return WidenBFloat16(static_cast<const BFloat16*>(from), count, to);
  WidenHalf(static_cast<const Half*>(from), count, to);
}

void Narrow(DType half, const float* from, int64_t count, void* to) {
  Require(IsHalf(half), "Narrow writes a half type");
  if (half == DType::kBFloat16) return NarrowBFloat16(from, count, static_cast<BFloat16*>(to));
  NarrowHalf(from, count, static_cast<Half*>(to));
}

}  // namespace moka
