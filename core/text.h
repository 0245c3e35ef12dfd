// Small text functions: concatenation, joining, number formats and the "did you mean" search.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace moka {

// Shortest decimal that reads back as the same double ("0.1", "1e-05", "nan").
std::string ToText(double value);

namespace internal {
inline void Append(std::string& s, std::string_view v) { s += v; }
inline void Append(std::string& s, char v) { s += v; }
template <class T>
requires std::is_arithmetic_v<T>
void Append(std::string& s, T v) {
  if constexpr (std::is_floating_point_v<T>) {
    s += ToText(static_cast<double>(v));
  } else {
    s += std::to_string(v);
  }
}
}  // namespace internal

// Concatenates strings and numbers.
template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::string s;
  (internal::Append(s, parts), ...);
  return s;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator);
// Splits at each separator; empty parts are kept.
std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);

// Damerau-Levenshtein distance (insert, delete, substitute, swap neighbours), case-insensitive.
int EditDistance(std::string_view a, std::string_view b);

// The nearest names of a vocabulary, at most three, all at the same least distance, which is at most a third of the
// name's length (at least 1); empty if none is that near.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& vocabulary);

// "did you mean "a" or "b"?", or empty when nothing is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& vocabulary);

// "1.5 GiB", "230 KiB", "12 bytes".
std::string BytesText(int64_t bytes);

// Replaces control characters and invalid UTF-8 by \xNN, for logs and error texts.
std::string Printable(std::string_view text);

// 64-bit FNV-1a; stable over runs and machines (used to name random streams and fingerprints).
uint64_t StableHash(std::string_view text);

}  // namespace moka
