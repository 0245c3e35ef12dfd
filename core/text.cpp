// Concatenation measures all parts first and allocates once; numbers are written by std::to_chars, in the shortest form
// that reads back. The "did you mean" search is an edit distance with transpositions of neighbours (optimal string
// alignment) under a bound of a third of the name.
#include "core/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <span>

#include "core/error.h"
#include "core/size.h"

namespace moka {

void ThrowSizeOverflow(const char* operation, int64_t a, int64_t b) {
  throw SizeOverflow(ErrorKind::kBadData,
                     StrCat("size overflow: ", a, " ", operation, " ", b, " does not fit in 63 bits"));
}

namespace {

char SmallLetter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The number of characters written to `to`.
size_t WriteShortest(double value, std::span<char> to) {
  if (std::isnan(value) || std::isinf(value)) {
    const std::string_view name = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    return name.copy(to.data(), to.size());
  }
  // A float widened to double would print 17 digits; prefer the short form when it reads back as that float.
  const auto as_float = static_cast<float>(value);
  const auto result = static_cast<double>(as_float) == value ? std::to_chars(to.data(), to.data() + to.size(), as_float)
                                                             : std::to_chars(to.data(), to.data() + to.size(), value);
  return static_cast<size_t>(result.ptr - to.data());
}

std::string Concatenate(std::initializer_list<std::string_view> parts) {
  size_t size = 0;
  for (const auto part : parts) size += part.size();
  std::string s;
  s.reserve(size);
  for (const auto part : parts) s += part;
  return s;
}

}  // namespace

std::string ToText(double value) {
  std::array<char, 32> buffer;
  return {buffer.data(), WriteShortest(value, buffer)};
}

void TextPart::Write(double value) { text_ = {digits_.data(), WriteShortest(value, digits_)}; }
void TextPart::Write(int64_t value) {
  text_ = {digits_.data(), std::to_chars(digits_.data(), digits_.data() + digits_.size(), value).ptr};
}
void TextPart::Write(uint64_t value) {
  text_ = {digits_.data(), std::to_chars(digits_.data(), digits_.data() + digits_.size(), value).ptr};
}

std::string StrCat(const TextPart& a) { return Concatenate({a.text()}); }
std::string StrCat(const TextPart& a, const TextPart& b) { return Concatenate({a.text(), b.text()}); }
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c) {
  return Concatenate({a.text(), b.text(), c.text()});
}
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d) {
  return Concatenate({a.text(), b.text(), c.text(), d.text()});
}
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e) {
  return Concatenate({a.text(), b.text(), c.text(), d.text(), e.text()});
}
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f) {
  return Concatenate({a.text(), b.text(), c.text(), d.text(), e.text(), f.text()});
}
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f, const TextPart& g) {
  return Concatenate({a.text(), b.text(), c.text(), d.text(), e.text(), f.text(), g.text()});
}
std::string StrCat(const TextPart& a, const TextPart& b, const TextPart& c, const TextPart& d, const TextPart& e,
                   const TextPart& f, const TextPart& g, const TextPart& h) {
  return Concatenate({a.text(), b.text(), c.text(), d.text(), e.text(), f.text(), g.text(), h.text()});
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string s;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) s += separator;
    s += parts[i];
  }
  return s;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != separator) continue;
    parts.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

std::string_view Trim(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::string Counted(int64_t count, std::string_view one, std::string_view many) {
  return StrCat(count, " ", count == 1 ? one : many);
}

std::string AsciiLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = SmallLetter(c);
  return lower;
}

int EditDistance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<int> d((a.size() + 1) * width);
  const auto at = [&](size_t i, size_t j) -> int& { return d[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int cost = SmallLetter(a[i - 1]) == SmallLetter(b[j - 1]) ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + cost});
      const bool swapped = i > 1 && j > 1 && SmallLetter(a[i - 1]) == SmallLetter(b[j - 2]) &&
                           SmallLetter(a[i - 2]) == SmallLetter(b[j - 1]);
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& vocabulary) {
  constexpr size_t kMaxNameBytes = 256;  // a longer name is not a typing mistake, and the search is quadratic
  constexpr size_t kMaxNames = 3;
  if (name.size() > kMaxNameBytes) return {};
  int best = std::max(1, static_cast<int>(name.size()) / 3);
  std::vector<std::string> nearest;
  for (const std::string& candidate : vocabulary) {
    const size_t gap = candidate.size() > name.size() ? candidate.size() - name.size() : name.size() - candidate.size();
    if (gap > static_cast<size_t>(best)) continue;
    const int distance = EditDistance(name, candidate);
    if (distance > best) continue;
    if (distance < best) nearest.clear();
    best = distance;
    if (nearest.size() < kMaxNames && std::find(nearest.begin(), nearest.end(), candidate) == nearest.end()) {
      nearest.push_back(candidate);
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& vocabulary) {
  std::vector<std::string> nearest = NearestNames(name, vocabulary);
  if (nearest.empty()) return {};
  for (std::string& n : nearest) n.insert(0, 1, '"').append(1, '"');
  return "did you mean " + Join(nearest, " or ") + "?";
}

std::string BytesText(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::fabs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return StrCat(bytes, " bytes");
  std::array<char, 32> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, value < 10 ? 2 : 1);
  return std::string(buffer.data(), result.ptr) + " " + kUnits[unit];
}

uint64_t StableHash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace moka
