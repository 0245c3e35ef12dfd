#include "data/text_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kMostColumns = 1U << 16U;

// Fields of a line; of one with too many no more than say so. A blank separator stands for any run of blanks and tabs;
// quotes keep separators.
std::vector<std::string> TextTableFieldsOf(std::string_view line, char separator) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false;
  bool any = false;
  const auto finish = [&] {
    if (separator != ' ' || any) fields.emplace_back(Trim(field));
    field.clear();
    any = false;
  };
  for (const char c : line) {
    if (fields.size() > kMostColumns) break;
    const bool separates = !quoted && (c == separator || (separator == ' ' && c == '\t'));
    if (separates) {
      finish();
    } else if (c == '"') {
      quoted = !quoted;
      any = true;
    } else {
      field += c;
      any = true;
    }
  }
  finish();
  return fields;
}

bool ToNumber(std::string_view text, double& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
}

bool IsNumber(const std::string& text) {
  double ignored = 0;
  return ToNumber(text, ignored);
}

}  // namespace

Table ReadTable(const std::filesystem::path& path) {
  Table table;
  table.path = path.string();
  const std::string text = ReadLinesFile(path);
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  const char separator = first.find(';') != std::string_view::npos   ? ';'
                         : first.find(',') != std::string_view::npos ? ','
                                                                     : ' ';
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    if (Trim(line).empty()) continue;
    std::vector<std::string> fields = TextTableFieldsOf(Trim(line), separator);
    if (fields.size() > kMostColumns) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = number},
                  StrCat("more than ", kMostColumns, " columns"));
    }
    if (table.rows.empty() && table.header.empty() && std::none_of(fields.begin(), fields.end(), IsNumber)) {
      table.header = std::move(fields);
      continue;
    }
    const size_t expected = !table.header.empty() ? table.header.size() : table.rows.empty() ? 0 : table.columns();
    if (expected != 0 && fields.size() != expected) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = number},
                  StrCat("has ", fields.size(), " columns, the lines before have ", expected));
    }
    table.rows.push_back(std::move(fields));
    table.lines.push_back(number);
  }
  if (table.rows.empty()) throw Error(ErrorKind::kBadData, StrCat(table.path, ": no rows"));
  return table;
}

std::string NameOf(const Table& table, size_t column) {
  return table.header.empty() ? StrCat("column ", column) : table.header[column];
}

double NumberAt(const Table& table, size_t row, size_t column, const std::string& hint) {
  double value = 0;
  if (ToNumber(table.rows[row][column], value)) return value;
  throw Error(
      ErrorKind::kBadData, SourcePlace{.file = table.path, .line = table.lines[row]},
      StrCat("\"", NameOf(table, column), "\" is \"", Printable(table.rows[row][column]), "\", expected a number"),
      hint);
}

}  // namespace moka
