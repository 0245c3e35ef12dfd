// Tables in text: a line a row; blanks, tabs, commas or semicolons between columns, or what a first line "sep=|" names;
// quotes keep separators.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

struct Table {
  std::string path;
  std::vector<std::string> header;  // empty: none
  int header_line = 0;              // from 1
  std::vector<std::vector<std::string>> rows;
  std::vector<int> lines;  // of each row, from 1
  size_t columns() const { return rows.front().size(); }
};

// A first line without a number is the header. Errors: kNoInput; kBadData at "file:line" for a row of another number of
// columns, or without rows.
Table ReadTable(const std::filesystem::path& path);
// Checks the names of columns that are used, as the names say which is which; columns without a name do not. Errors:
// kBadData at the header's line where two have one name.
void CheckColumnNames(const Table& table, std::span<const size_t> columns);
// The column that a word names: its name in the header, or its number from 0. Errors: kUsage with the nearest name.
size_t ColumnNamed(const Table& table, const std::string& name);
// The name of a column by the header, or "column 2".
std::string NameOf(const Table& table, size_t column);
// Whether a float keeps fewer digits of a number than its text gives, or lies so near to 0 that it cannot keep them.
bool IsRoundedToFloat(const std::string& text, double value);
// Whether a cell says that its value is not known: empty, "?", "NA" or "NaN".
bool IsUnknownCell(const std::string& cell);
// Whether a text is a finite number.
bool IsNumber(const std::string& text);
// A finite number. Errors: kBadData at "file:line", with the hint.
double NumberAt(const Table& table, size_t row, size_t column, const std::string& hint = {});

// Numbers of a table that become floats as they stand there.
class TableFloats {
 public:
  explicit TableFloats(const Table& table) : table_(table) {}
  // One that loses digits is counted. Errors: kBadData at "file:line" for one that is none, or beyond every float.
  float At(size_t row, size_t column, const std::string& hint = {});
  // Returns a sentence about the numbers counted, with the first one's place; empty if there are none.
  std::string Warning() const;

 private:
  const Table& table_;
  int64_t rounded_ = 0;
  std::string first_;
};

}  // namespace moka
