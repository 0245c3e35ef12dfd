// The two 16-bit floating types as bits: IEEE 754 binary16 (float16) and bfloat16, the upper half of a float. Written
// out because not every compiler has the types. Rounding is to nearest, ties to even; a NaN stays a NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace moka {

// Both types are bits to the compiler; these tell them apart.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

constexpr float FloatOfBFloat16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16U); }

constexpr uint16_t BFloat16OfFloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

constexpr float FloatOfHalf(uint16_t half) {
  const uint32_t sign = (uint32_t{half} & 0x8000U) << 16U;
  const uint32_t exponent = (uint32_t{half} >> 10U) & 31U;
  const uint32_t mantissa = uint32_t{half} & 1023U;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in a float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255U : exponent + 112U;  // infinity and NaN keep their mantissa
  return std::bit_cast<float>(sign | (wide << 23U) | (mantissa << 13U));
}

constexpr uint16_t HalfOfFloat(float value) {
  const auto all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (all >> 16U) & 0x8000U;
  uint32_t bits = all & 0x7FFFFFFFU;
  if (bits > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);   // NaN
  if (bits >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);  // 2^16 and above: infinity
  if (bits < 0x38800000U) {
    // Below 2^-14: adding 1/2, whose last place is 2^-24, rounds the value to the subnormals' step.
    const float rounded = std::bit_cast<float>(bits) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000U));
  }
  bits += 0xFFFU + ((bits >> 13U) & 1U);
  return static_cast<uint16_t>(sign | ((bits - 0x38000000U) >> 13U));
}

}  // namespace moka
