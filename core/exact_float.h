// Tells which numbers keep their value as a float, whose significand has 24 bits: all whole ones up to 2^24, and not
// all above.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace moka {

inline constexpr int64_t kMostExactWhole = int64_t{1} << 24U;

template <std::integral T>
constexpr bool IsExactFloat(T value) {
  const bool is_negative = std::is_signed_v<T> && value < 0;
  const uint64_t magnitude = is_negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return magnitude == 0 || magnitude >> static_cast<unsigned>(std::countr_zero(magnitude)) < uint64_t{1} << 24U;
}

// NaN and the infinities are what they were.
inline bool IsExactFloat(double value) {
  return !std::isfinite(value) || (std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()) &&
                                   static_cast<double>(static_cast<float>(value)) == value);
}
inline bool IsExactFloat(float /*value*/) { return true; }

// Whether a finite number is beyond the largest float.
inline bool IsBeyondFloat(double value) {
  return std::isfinite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace moka
