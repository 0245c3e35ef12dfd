// Widths are counted in characters of UTF-8, not in bytes, so that names in any script line up.
#include "core/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/text.h"

namespace moka {
namespace {

// Characters of UTF-8 text: the bytes that go on with none.
size_t CharactersOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

}  // namespace

std::string TextTable(const std::vector<std::vector<std::string>>& rows, std::string_view left) {
  std::vector<std::vector<std::string>> shown = rows;
  std::vector<size_t> widths;
  for (std::vector<std::string>& row : shown) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = Printable(row[i]);
      widths[i] = std::max(widths[i], CharactersOf(row[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : shown) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - CharactersOf(row[i]), ' ');
      const bool is_left = i < left.size() && left[i] == 'l';
      line += (i > 0 ? "  " : "") + (is_left ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string SomeOf(std::vector<std::string> texts, size_t most, std::string_view between) {
  const size_t rest = texts.size() > most ? texts.size() - most : 0;
  texts.resize(texts.size() - rest);
  return Join(texts, between) + (rest > 0 ? StrCat(" and ", rest, " more") : "");
}

std::string MillisecondsText(double seconds, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, seconds * 1e3);
  return text.data();
}

}  // namespace moka
