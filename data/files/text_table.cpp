// The separator is found in the first line, outside quotes, which are read as RFC 4180 has them.
#include "data/files/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/text.h"
#include "data/files/list_text.h"

namespace moka {
namespace {

constexpr size_t kMostColumns = 1U << 20U;

// Fields of a line. A blank separator stands for any run of blanks and tabs. A field that begins with a quote goes on
// to the next one, whatever is between; two quotes there are one. Elsewhere a quote is a letter. Errors: kBadData at
// the place.
std::vector<std::string> FieldsOf(std::string_view line, char separator, const SourcePlace& place) {
  std::vector<std::string> fields;
  const auto separates = [&](char c) { return c == separator || (separator == ' ' && c == '\t'); };
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  size_t at = 0;
  do {
    while (at < line.size() && is_blank(line[at]) && (separator == ' ' || !separates(line[at]))) ++at;
    std::string field;
    if (at < line.size() && line[at] == '"') {
      const auto fail = [&](std::string_view text) {
        throw Error(ErrorKind::kBadData, place, StrCat("field ", fields.size() + 1, " begins with a quote", text));
      };
      for (++at;; ++at) {
        if (at >= line.size()) fail(" that its line does not end");
        if (line[at] == '"' && line.substr(at + 1, 1) != "\"") break;
        if (line[at] == '"') ++at;
        field += line[at];
      }
      for (++at; at < line.size() && !separates(line[at]); ++at) {
        if (!is_blank(line[at]))
          fail(StrCat(", and goes on behind the one that ends it: a quote inside is written twice"));
      }
    } else {
      const size_t begin = at;
      while (at < line.size() && !separates(line[at])) ++at;
      field = Trim(line.substr(begin, at - begin));
    }
    fields.push_back(std::move(field));
    if (fields.size() > kMostColumns)
      throw Error(ErrorKind::kBadData, place, StrCat("more than ", kMostColumns, " columns"));
  } while (at++ < line.size());
  return fields;
}

std::string OutsideQuotes(std::string_view line) {
  bool is_quoted = false;
  std::string found;
  for (const char c : line) {
    is_quoted = is_quoted != (c == '"');
    if (!is_quoted) found += c;
  }
  return found;
}

// The one that the first line has outside quotes: semicolons before commas, tabs and blanks. Spreadsheets name it in a
// line of its own, "sep=;", which is taken away.
char TakeSeparator(std::vector<ListTextLine>& lines) {
  constexpr std::string_view kNamed = "sep=";
  constexpr std::string_view kSeparators = ";,|\t";
  if (lines.empty()) return ' ';
  const std::string_view named = lines.front().text;
  if (named.size() == kNamed.size() + 1 && named.starts_with(kNamed) &&
      kSeparators.find(named.back()) != std::string_view::npos) {
    const char separator = named.back();
    lines.erase(lines.begin());
    return separator;
  }
  const std::string first = OutsideQuotes(lines.front().text);
  for (const char separator : {';', ','}) {
    if (first.find(separator) != std::string::npos) return separator;
  }
  // Runs of blanks and tabs make columns stand below each other. A tab ends a cell if all lines have as many, and one
  // of them has no cell that would be empty.
  const auto tabs = std::ranges::count(first, '\t');
  const auto has_as_many = [&](const ListTextLine& line) {
    const std::string text = OutsideQuotes(line.text);
    return text.find("  ") == std::string::npos && std::ranges::count(text, '\t') == tabs;
  };
  const auto is_full = [](const ListTextLine& line) {
    const std::string text = OutsideQuotes(line.text);
    return text.find("\t\t") == std::string::npos && !text.starts_with('\t') && !text.ends_with('\t');
  };
  const bool ends_cells = tabs > 0 && std::ranges::all_of(lines, has_as_many) && std::ranges::any_of(lines, is_full);
  return ends_cells ? '\t' : ' ';
}

bool ToNumber(std::string_view text, double& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
}

}  // namespace

bool IsNumber(const std::string& text) {
  double ignored = 0;
  return ToNumber(text, ignored);
}

size_t ColumnNamed(const Table& table, const std::string& name) {
  std::vector<size_t> called;
  for (size_t c = 0; c < table.header.size(); ++c) {
    if (table.header[c] == name) called.push_back(c);
  }
  CheckColumnNames(table, called);
  if (!called.empty()) return called.front();
  size_t number = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
  if (read.ec == std::errc() && read.ptr == name.data() + name.size() && number < table.columns()) return number;
  throw Error(
      ErrorKind::kUsage, {},
      StrCat(table.path, " has no column \"", Printable(name), "\" (", table.columns(), " columns, numbered from 0)"),
      DidYouMean(name, table.header));
}

Table ReadTable(const std::filesystem::path& path) {
  Table table;
  table.path = path.string();
  std::vector<ListTextLine> lines = ListTextLines(ReadListText(path), ListBlanks::kKept);
  const char separator = TakeSeparator(lines);
  for (const auto& [line, number] : lines) {
    std::vector<std::string> fields = FieldsOf(separator == '\t' ? std::string_view(line) : Trim(line), separator,
                                               SourcePlace{.file = table.path, .line = number});
    if (table.rows.empty() && table.header.empty() && std::none_of(fields.begin(), fields.end(), IsNumber)) {
      table.header = std::move(fields);
      table.header_line = number;
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

void CheckColumnNames(const Table& table, std::span<const size_t> columns) {
  if (table.header.empty()) return;
  std::unordered_map<std::string_view, size_t> first;
  for (const size_t column : columns) {
    const std::string& name = table.header[column];
    if (name.empty()) continue;
    const auto [found, is_new] = first.emplace(name, column);
    if (is_new) continue;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = table.header_line},
                StrCat("columns ", found->second, " and ", column, ", counted from 0, are both called \"",
                       Printable(name), "\""));
  }
}

std::string NameOf(const Table& table, size_t column) {
  const bool has_name = !table.header.empty() && !table.header[column].empty();
  return has_name ? table.header[column] : StrCat("column ", column);
}

bool IsRoundedToFloat(const std::string& text, double value) {
  constexpr int kFloatDigits = 7;
  if (IsExactFloat(value)) return false;
  // Below it floats have fewer digits the nearer they are to 0, and at last are 0.
  if (std::abs(value) < static_cast<double>(std::numeric_limits<float>::min())) return true;
  const std::string_view mantissa = std::string_view(text).substr(0, text.find_first_of("eE"));
  int digits = 0;
  for (const char c : mantissa) {
    if (c >= '0' && c <= '9' && (c != '0' || digits > 0)) ++digits;
  }
  return digits > kFloatDigits;
}

bool IsUnknownCell(const std::string& cell) {
  return cell.empty() || cell == "?" || AsciiLower(cell) == "na" || AsciiLower(cell) == "nan";
}

double NumberAt(const Table& table, size_t row, size_t column, const std::string& hint) {
  double value = 0;
  if (ToNumber(table.rows[row][column], value)) return value;
  const std::string& text = table.rows[row][column];
  std::string with_point = text;
  std::ranges::replace(with_point, ',', '.');
  const bool has_comma = with_point != text && IsNumber(with_point);
  throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = table.lines[row]},
              StrCat("\"", NameOf(table, column), "\" is \"", Printable(text), "\", expected a number"),
              has_comma ? "decimals stand behind a point, not a comma" : hint);
}

float TableFloats::At(size_t row, size_t column, const std::string& hint) {
  const double number = NumberAt(table_, row, column, hint);
  const std::string& text = table_.rows[row][column];
  if (IsBeyondFloat(number)) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table_.path, .line = table_.lines[row]},
                StrCat("\"", NameOf(table_, column), "\" is ", text, ", too large for a float"));
  }
  const auto value = static_cast<float>(number);
  if (IsRoundedToFloat(text, number) && ++rounded_ == 1) {
    first_ = fmt::format("line {}, \"{}\": {} becomes {}", table_.lines[row], Printable(NameOf(table_, column)), text,
                         value);
  }
  return value;
}

std::string TableFloats::Warning() const {
  if (rounded_ == 0) return {};
  return StrCat(table_.path, ": ", rounded_,
                " numbers have more digits than a float keeps, or lie nearer to 0 than it can, and are rounded (",
                first_, ")");
}

}  // namespace moka
