// The vocabulary of the loops of batch normalisation: eight floats at a time, from and to elements of either type, in
// code for the widest registers that may be used. Included by batch_norm_strips.cpp and batch_norm_rows.cpp only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/half.h"
#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/normalisation/batch_norm_types.h"
#include "layers/kernels/cpu/vector_targets.h"

// A body is written once for elements of T; Widest inlines it.
#define MOKA_INLINE [[gnu::always_inline]] inline
// Behind the parameters of a function without a name, likewise.
#define MOKA_INLINED __attribute__((always_inline))

namespace moka {
namespace {

// No wider than AVX2's registers: compilers keep wider ones in memory, and these loops wait for memory anyway.
using Float8 [[gnu::vector_size(32)]] = float;
using Float4 [[gnu::vector_size(16)]] = float;
using Double4 [[gnu::vector_size(32)]] = double;
using Word8 [[gnu::vector_size(32)]] = uint32_t;
using Short8 [[gnu::vector_size(16)]] = uint16_t;

template <class V>
MOKA_INLINE void Load(V& v, const double* from) {
  std::memcpy(&v, from, sizeof(V));
}
MOKA_INLINE void Load(Float8& v, const float* from) { std::memcpy(&v, from, sizeof v); }
MOKA_INLINE void Load(Float8& v, const BFloat16* from) {
  Short8 halves;
  std::memcpy(&halves, from, sizeof halves);
  const Word8 bits = __builtin_convertvector(halves, Word8) << 16U;
  std::memcpy(&v, &bits, sizeof v);
}
template <class V>
MOKA_INLINE void Store(const V& v, double* to) {
  std::memcpy(to, &v, sizeof(V));
}
// How floats are rounded to bfloat16: as BFloat16OfFloat does, in seven instructions.
struct InSteps {
  MOKA_INLINE static void Round(const Float8& v, Short8& halves);
};
// By AVX512-BF16's one, which differs for numbers below the smallest normal one alone: they become 0. It is spelled
// out, since bodies are inlined from functions that know no such instruction; Clang wants to see a function's
// registers before it is inlined, and does it in steps.
struct AtOnce {
  MOKA_INLINE static void Round(const Float8& v, Short8& halves) {
#if defined(__x86_64__) && !defined(__clang__)
    asm("vcvtneps2bf16 %1, %0" : "=x"(halves) : "x"(v));
#else
    InSteps::Round(v, halves);
#endif
  }
};

MOKA_INLINE void InSteps::Round(const Float8& v, Short8& halves) {
  Word8 bits;
  std::memcpy(&bits, &v, sizeof bits);
  const Word8 high = bits >> 16U;
  const Word8 rounded = (bits + 0x7FFFU + (high & 1U)) >> 16U;
  const auto is_number = v == v;  // NOLINT(misc-redundant-expression): false for a NaN
  halves = __builtin_convertvector(is_number ? rounded : high | 0x40U, Short8);
}
template <class R>
MOKA_INLINE void Store(const Float8& v, float* to) {
  std::memcpy(to, &v, sizeof v);
}
template <class R>
MOKA_INLINE void Store(const Float8& v, BFloat16* to) {
  Short8 halves;
  R::Round(v, halves);
  std::memcpy(to, &halves, sizeof halves);
}
// L lanes in pieces.
template <size_t kPieces, class T>
MOKA_INLINE void LoadAll(std::array<Float8, kPieces>& v, const T* from) {
  for (size_t k = 0; k < kPieces; ++k) Load(v[k], from + 8 * k);
}

// Rows summed in float before the sum goes into double: the rounding of so few additions stays below that of the
// result, and converting every row would take longer than reading it.
inline constexpr int64_t kRowsInFloat = 16;

// g of eight elements of y at `at`; v is x there.
// The gradients of several readers are added here on the way instead of by a node of their own, which would write and
// read the whole tensor once more. The mask comes from y if it is there, else y is computed again from x.
template <Mask kMask, class T, class Coefficients>
MOKA_INLINE void LoadGradient(const GradientStreams<T>& in, const Coefficients& row, const Float8& v, int64_t at,
                              size_t k, Float8& g) {
  Load(g, in.dy[0] + at);
  for (int n = 1; n < in.gradients; ++n) {
    Float8 more;
    Load(more, in.dy[static_cast<size_t>(n)] + at);
    g += more;
  }
  if constexpr (kMask != Mask::kNone) {
    Float8 y = v;
    if constexpr (kMask == Mask::kOutput) {
      Load(y, in.y + at);
    } else {
      row.Apply(y, k);
    }
    g = y > 0.0F ? g : Float8{};
  }
}

// Calls f, which is inlined, with the widest registers that may be used here, and how elements of T are rounded. The
// bits are the same in all, but for the smallest numbers of bfloat16.
#if defined(__x86_64__)
template <class F>
MOKA_AVX512_256 void WithAvx512(const F& f) {
  f(AtOnce());
}
template <class F>
MOKA_AVX2 void WithAvx2(const F& f) {
  f(InSteps());
}
#endif
template <class T, class F>
void Widest(const F& f) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (HasBFloat16Pairs()) return WithAvx512(f);
  }
  if (HasAvx2()) return WithAvx2(f);
#endif
  f(InSteps());
}

inline float At(const float* from, int64_t i) { return from[i]; }
inline float At(const BFloat16* from, int64_t i) { return FloatOfBFloat16(from[i].bits); }
inline void Put(float value, float* to) { *to = value; }
inline void Put(float value, BFloat16* to) { to->bits = BFloat16OfFloat(value); }

inline float ForwardOf(const ForwardCoefficients& c, float x, size_t lane) {
  return (x - c.mean[lane]) * c.factor[lane] + c.shift[lane];
}

// One element of what LoadGradient does for eight, with the same result.
template <class T>
float GradientOf(const GradientStreams<T>& in, const ForwardCoefficients& c, size_t lane, int64_t i, int64_t j) {
  if (in.mask == Mask::kOutput && !(At(in.y, j) > 0)) return 0.0F;
  if (in.mask == Mask::kInput && !(ForwardOf(c, At(in.x, i), lane) > 0)) return 0.0F;
  float g = At(in.dy[0], j);
  for (int n = 1; n < in.gradients; ++n) g += At(in.dy[static_cast<size_t>(n)], j);
  return g;
}

// The slow way, an element at a time: in double, so that sums need no pivot.
template <class T>
void AddValue(const T* x, int64_t i, size_t lane, const LaneSums& sums) {
  const double v = At(x, i);
  sums.first[lane] += v;
  sums.second[lane] += v * v;
}
template <class T>
void ApplyValue(const ForwardCoefficients& c, Activation activation, size_t lane, const T* x, const T* residual,
                int64_t i, T* y, int64_t j) {
  const float v = ForwardOf(c, At(x, i), lane) + (residual == nullptr ? 0.0F : At(residual, i));
  Put(activation == Activation::kRelu && v < 0 ? 0.0F : v, y + j);
}
template <class T>
void AddGradientValue(const ForwardCoefficients& c, const GradientStreams<T>& in, size_t lane, int64_t i, int64_t j,
                      T* out, const LaneSums& sums) {
  const float g = GradientOf(in, c, lane, i, j);
  const double v = At(in.x, i) - c.mean[lane];
  if (out != nullptr) Put(g, out + i);
  sums.first[lane] += g;
  sums.second[lane] += g * v;
}
template <class T>
void ApplyGradientValue(const BackwardCoefficients& c, const GradientStreams<T>& in, size_t lane, int64_t i, int64_t j,
                        T* dx) {
  const float g = GradientOf(in, c.forward, lane, i, j);
  const float v = At(in.x, i) - c.forward.mean[lane];
  Put((g - c.average[lane] - v * c.slope[lane]) * c.forward.factor[lane], dx + i);
}

}  // namespace
}  // namespace moka
