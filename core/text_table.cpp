#include "core/text_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace moka {

std::string TextTable(const std::vector<std::vector<std::string>>& rows, std::string_view left) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool is_left = i < left.size() && left[i] == 'l';
      line += (i > 0 ? "  " : "") + (is_left ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string MillisecondsText(double seconds, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, seconds * 1e3);
  return text.data();
}

}  // namespace moka
