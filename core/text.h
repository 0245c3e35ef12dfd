// Small text functions: concatenation, joining, number formats and the "did you mean" search.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace moka {

// Shortest decimal that reads back as the same double ("0.1", "1e-05", "nan").
std::string ToText(double value);

// A part of a text: a string, a character or a number. It lives no longer than the call it is an argument of.
class TextPart {
 public:
  TextPart(std::string_view text) : text_(text) {}
  TextPart(const std::string& text) : text_(text) {}
  TextPart(const char* text) : text_(text) {}
  TextPart(char character) : text_(digits_.data(), 1) { digits_[0] = character; }
  template <class T>
  requires std::is_arithmetic_v<T> TextPart(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      Write(static_cast<double>(value));
    } else if constexpr (std::is_signed_v<T>) {
      Write(int64_t{value});
    } else {
      Write(uint64_t{value});
    }
  }
  TextPart(const TextPart&) = delete;
  TextPart& operator=(const TextPart&) = delete;

  std::string_view text() const { return text_; }

 private:
  void Write(double value);
  void Write(int64_t value);
  void Write(uint64_t value);

  std::array<char, 32> digits_;
  std::string_view text_;
};

// Concatenates strings and numbers. There are 4,000 calls, nearly all of up to eight parts: those instantiate nothing.
std::string StrCat(const TextPart& a);
std::string StrCat(const TextPart& a, const TextPart& b);
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c);
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d);
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e);
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f);
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f, const TextPart& g);
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f, const TextPart& g, const TextPart& h);
template <class... More>
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f, const TextPart& g, const TextPart& h, const More&... more) {
  return StrCat(a, b, c, d, e, f, g, h) + StrCat(more...);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator);
// Splits at each separator; empty parts are kept.
std::vector<std::string> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
// A number and its word: "1 class", "3 classes".
std::string Counted(int64_t count, std::string_view one, std::string_view many);
// The letters A to Z small, whatever the locale; other bytes as they are.
std::string AsciiLower(std::string_view text);

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
