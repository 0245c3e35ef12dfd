// Elementary functions as straight-line code that the compiler turns into vector loops: float with errors of a few
// units in the last place, double by the standard library. Only multiplications, additions, comparisons and moves of
// bits: without contraction (-ffp-contract=off) every vector width gives the same bits. Coefficients are least-maximum
// fits of our own; the range reductions are the classic ones (Cody and Waite, 1980).
// Private to tile_ops.cpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Inlined into functions compiled for other instruction sets, where a call would leave the vector registers.
#define MOKA_INLINE inline __attribute__((always_inline))

namespace moka::tile {

MOKA_INLINE uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
MOKA_INLINE float FromBits(uint32_t x) { return __builtin_bit_cast(float, x); }
MOKA_INLINE uint64_t Bits(double x) { return __builtin_bit_cast(uint64_t, x); }
MOKA_INLINE double FromBits(uint64_t x) { return __builtin_bit_cast(double, x); }

MOKA_INLINE float Abs(float x) { return FromBits(Bits(x) & 0x7FFFFFFFU); }
MOKA_INLINE float CopySign(float x, float sign) {
  return FromBits((Bits(x) & 0x7FFFFFFFU) | (Bits(sign) & 0x80000000U));
}

// exp(x) = 2^n exp(r), r = x - n ln2 in two parts, |r| <= ln2/2. 2^n in two factors, so denormals come out right.
MOKA_INLINE float Exp(float x) {
  constexpr float kShift = 12582912.0F;         // 1.5 * 2^23: adding it rounds to an integer
  const float low = x < -104.0F ? -104.0F : x;  // a NaN passes
  const float bounded = low > 89.0F ? 89.0F : low;
  const float shifted = bounded * 1.44269504F + kShift;
  const uint32_t n = Bits(shifted) - 0x4B400000U;
  const float nf = shifted - kShift;
  const float r = (bounded - nf * 0.693359375F) + nf * 2.12194440e-4F;
  const float q = 0.49999994F + r * (0.1666652F + r * (0.041668393F + r * (0.008368781F + r * 0.0013814467F)));
  const float p = 1.0F + (r + r * r * q);
  const uint32_t half = (n >> 1U) | (n & 0x80000000U);
  return p * FromBits((half + 127U) << 23U) * FromBits((n - half + 127U) << 23U);
}

// log(x) = e ln2 + log(m), sqrt(1/2) <= m < sqrt(2).
MOKA_INLINE float Log(float x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const bool tiny = x < 1.17549435e-38F;
  const float scaled = tiny ? x * 33554432.0F : x;  // 2^25
  const uint32_t shifted = Bits(scaled) - 0x3F3504F3U;
  const float e = static_cast<float>(static_cast<int32_t>(shifted) >> 23) - (tiny ? 25.0F : 0.0F);
  const float f = FromBits((shifted & 0x007FFFFFU) + 0x3F3504F3U) - 1.0F;
  const float q = 0.33333313F +
                  f * (-0.2500001F +
                       f * (0.20002119F +
                            f * (-0.16667996F +
                                 f * (0.14219552F + f * (-0.12405589F +
                                                         f * (0.11888163F + f * (-0.11675651F + f * 0.067466386F)))))));
  const float z = f * f;
  const float y = f * z * q - e * 2.12194440e-4F - 0.5F * z;
  const float value = (f + y) + e * 0.693359375F;
  const float in_range = x < kInf ? value : x;  // infinity and NaN
  const float positive = x == 0.0F ? -kInf : in_range;
  return x < 0.0F ? std::numeric_limits<float>::quiet_NaN() : positive;
}

MOKA_INLINE float Sigmoid(float x) { return 1.0F / (1.0F + Exp(-x)); }

MOKA_INLINE float Tanh(float x) {
  const float t = Abs(x);
  const float s = x * x;
  const float q = -0.3333333F +
                  s * (0.1333321F + s * (-0.053947203F + s * (0.02170297F + s * (-0.0081826774F + s * 0.0021475398F))));
  const float small = x + x * s * q;
  const float large = CopySign(1.0F - 2.0F / (Exp(t + t) + 1.0F), x);
  return t < 0.625F ? small : large;
}

// Below 1 an odd polynomial, above 1 - exp(p(t)) with p a fit of log(erfc(t)).
MOKA_INLINE float Erf(float x) {
  const float t = Abs(x);
  const float s = x * x;
  const float q =
      0.12837917F +
      s * (-0.37612626F +
           s * (0.112836F + s * (-0.026854444F + s * (0.0051895357F + s * (-8.0208422e-4F + s * 7.889123e-5F)))));
  const float u = t > 4.0F ? 4.0F : t;
  const float p =
      1.8846661e-4F +
      u * (-1.1295803F +
           u * (-0.6332164F + u * (-0.10842209F + u * (0.025210334F + u * (-0.0042052828F +
                                                                           u * (4.4147234e-4F + u * -2.169759e-5F))))));
  const float large = CopySign(1.0F - Exp(p), x);
  return t < 1.0F ? x + x * q : large;
}

MOKA_INLINE float Floor(float x) {
  constexpr float kWhole = 8388608.0F;  // 2^23: from here on every float is an integer
  const float t = Abs(x);
  const float rounded = CopySign((t + kWhole) - kWhole, x);
  const float down = rounded > x ? rounded - 1.0F : rounded;
  return t < kWhole ? down : x;
}

MOKA_INLINE float Sqrt(float x) { return __builtin_sqrtf(x); }

// Natural logarithm of a positive number in float's range, to about 1e-12.
MOKA_INLINE double WideLog(double x) {
  const uint64_t shifted = Bits(x) + (0x3FF0000000000000U - 0x3FE6A09E667F3BCDU);
  const double k = FromBits((shifted >> 52U) | 0x4330000000000000U) - (4503599627370496.0 + 1023.0);
  const double m = FromBits((shifted & 0x000FFFFFFFFFFFFFU) + 0x3FE6A09E667F3BCDU);
  const double f = (m - 1.0) / (m + 1.0);
  const double s = f * f;
  const double q =
      1.0 / 3 + s * (1.0 / 5 + s * (1.0 / 7 + s * (1.0 / 9 + s * (1.0 / 11 + s * (1.0 / 13 + s * (1.0 / 15))))));
  return k * 0.69314718055994531 + (f + f) * (1.0 + s * q);
}

// exp to about 1e-11 for results in float's range.
MOKA_INLINE double WideExp(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  const double low = x < -200.0 ? -200.0 : x;
  const double bounded = low > 200.0 ? 200.0 : low;
  const double shifted = bounded * 1.4426950408889634 + kShift;
  const double r = bounded - (shifted - kShift) * 0.69314718055994531;
  const double p =
      1.0 +
      r * (1.0 + r * (1.0 / 2 +
                      r * (1.0 / 6 +
                           r * (1.0 / 24 +
                                r * (1.0 / 120 +
                                     r * (1.0 / 720 + r * (1.0 / 5040 + r * (1.0 / 40320 + r * (1.0 / 362880)))))))));
  return p * FromBits((Bits(shifted) - 0x4338000000000000U + 1023U) << 52U);
}

// |a|^b in double, then the sign: a float's logarithm times b would lose the digits that b multiplies.
// Selections of finished values only, no conditions joined by &&: those become branches.
MOKA_INLINE float Pow(float a, float b) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float t = Abs(a);
  const float logarithm_of_limit = t == 0.0F ? -kInf : t;  // zero, infinity or NaN
  const float above_zero = t > 0.0F ? t : kInf;            // NOLINT(bugprone-narrowing-conversions): float to float
  const float finite = above_zero < kInf ? t : 1.0F;
  const double of_finite = WideLog(static_cast<double>(finite));
  const double of_limit = static_cast<double>(logarithm_of_limit);
  const double logarithm = above_zero < kInf ? of_finite : of_limit;
  const auto size = static_cast<float>(WideExp(static_cast<double>(b) * logarithm));
  const float half = b * 0.5F;
  const float if_whole = Floor(half) == half ? size : -size;  // even or odd
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const float if_broken = above_zero < kInf ? kNaN : size;
  const float if_negative = Floor(b) == b ? if_whole : if_broken;
  const float value = static_cast<int32_t>(Bits(a)) < 0 ? if_negative : size;
  const float not_one = a == 1.0F ? 1.0F : value;
  return b == 0.0F ? 1.0F : not_one;
}

MOKA_INLINE double Abs(double x) { return __builtin_fabs(x); }
MOKA_INLINE double Exp(double x) { return std::exp(x); }
MOKA_INLINE double Log(double x) { return std::log(x); }
MOKA_INLINE double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
MOKA_INLINE double Tanh(double x) { return std::tanh(x); }
MOKA_INLINE double Erf(double x) { return std::erf(x); }
MOKA_INLINE double Floor(double x) { return std::floor(x); }
MOKA_INLINE double Sqrt(double x) { return __builtin_sqrt(x); }
MOKA_INLINE double Pow(double a, double b) { return std::pow(a, b); }

}  // namespace moka::tile
