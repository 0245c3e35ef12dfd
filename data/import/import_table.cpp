// Importer of text tables: rows of numbers and categories to databases of float Datums.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/text_table.h"
#include "data/import/import.h"
#include "data/records/lmdb_writer.h"
#include "proto/moka.pb.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNumberHint = "leave the column out of the features, or make it one-hot";

// The columns that an option names. Errors: kUsage; so for one that is named twice.
std::vector<size_t> ColumnsOf(const Table& table, const std::vector<std::string>& names, std::string_view option) {
  std::vector<size_t> columns;
  for (const std::string& name : names) {
    const size_t column = ColumnNamed(table, name);
    if (std::ranges::find(columns, column) != columns.end()) {
      throw Error(ErrorKind::kUsage, StrCat(option, " names the column \"", Printable(name), "\" twice"));
    }
    columns.push_back(column);
  }
  return columns;
}

// Rows with "?" in a column that is used are dropped, before rows are counted for the split.
int64_t DropUnknown(Table& table, const std::set<size_t>& used) {
  Table kept;
  kept.path = table.path;
  kept.header = table.header;
  kept.header_line = table.header_line;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    if (std::any_of(used.begin(), used.end(), [&](size_t c) { return table.rows[i][c] == "?"; })) continue;
    kept.rows.push_back(std::move(table.rows[i]));
    kept.lines.push_back(table.lines[i]);
  }
  const auto dropped = static_cast<int64_t>(table.rows.size() - kept.rows.size());
  if (kept.rows.empty()) throw Error(ErrorKind::kBadData, StrCat(table.path, ": every row has a \"?\""));
  table = std::move(kept);
  return dropped;
}

// Feature columns as numbers: [columns][rows].
struct Features {
  std::vector<std::string> names;
  std::vector<std::vector<double>> columns;
};

void AppendOneHot(const Table& table, size_t column, Features& features) {
  std::set<std::string> values;
  for (const auto& row : table.rows) values.insert(row[column]);
  constexpr size_t kMaxValues = 1024;
  if (values.size() > kMaxValues) {
    throw Error(ErrorKind::kUsage, StrCat(table.path, ": \"", NameOf(table, column), "\" has ", values.size(),
                                          " values, too many for one-hot"));
  }
  values.erase(values.begin());  // the first is the case of all zeros: with a bias, k columns would be redundant
  for (const std::string& value : values) {
    features.names.push_back(StrCat(NameOf(table, column), "=", value));
    std::vector<double>& numbers = features.columns.emplace_back();
    for (const auto& row : table.rows) numbers.push_back(row[column] == value ? 1 : 0);
  }
}

// `floats`: of numbers that are written as they are; null where they are scaled.
Features FeaturesOf(const Table& table, const std::vector<size_t>& columns, const std::set<size_t>& one_hot,
                    TableFloats* floats) {
  Features features;
  for (const size_t column : columns) {
    if (one_hot.contains(column)) {
      AppendOneHot(table, column, features);
      continue;
    }
    features.names.push_back(NameOf(table, column));
    std::vector<double>& numbers = features.columns.emplace_back();
    for (size_t row = 0; row < table.rows.size(); ++row) {
      numbers.push_back(floats != nullptr ? floats->At(row, column, kNumberHint)
                                          : NumberAt(table, row, column, kNumberHint));
    }
  }
  return features;
}

void Standardize(const std::vector<size_t>& train, Features& features, TableReport& report) {
  for (std::vector<double>& column : features.columns) {
    double sum = 0;
    for (const size_t row : train) sum += column[row];
    const double mean = sum / static_cast<double>(train.size());
    double squares = 0;
    for (const size_t row : train) squares += (column[row] - mean) * (column[row] - mean);
    const double stddev = std::sqrt(squares / static_cast<double>(train.size()));
    const double divisor = stddev > 0 ? stddev : 1;  // a constant column becomes zeros
    for (double& value : column) value = (value - mean) / divisor;
    report.mean.push_back(mean);
    report.stddev.push_back(divisor);
  }
}

void WriteRows(const fs::path& out, const std::vector<std::vector<double>>& columns, const std::vector<size_t>& rows) {
  LmdbWriter writer(out);
  for (const size_t row : rows) {
    Datum datum;
    datum.set_channels(static_cast<int32_t>(columns.size()));
    datum.set_height(1);
    datum.set_width(1);
    for (const auto& column : columns) {
      if (IsBeyondFloat(column[row])) {
        throw Error(ErrorKind::kBadData, StrCat(out.string(), ": row ", row, " has ", column[row],
                                                ", larger than any float (scaled, if that is asked for)"));
      }
      datum.add_float_data(static_cast<float>(column[row]));
    }
    writer.Put(LmdbKey(writer.entries(), StrCat("row", row)), datum.SerializeAsString());
  }
  writer.Finish();
}

void WriteReport(const fs::path& out, const TableReport& report, const std::string& target) {
  const nlohmann::json json = {{"columns", report.columns},
                               {"mean", report.mean},
                               {"stddev", report.stddev},
                               {"target", target},
                               {"train_rows", report.train_rows},
                               {"test_rows", report.test_rows},
                               {"dropped_rows", report.dropped_rows}};
  WriteFileAtomically(out / "table.json", json.dump(1) + "\n");
}

}  // namespace

TableReport ImportTable(const fs::path& path, const fs::path& out, const TableOptions& options) {
  Table table = ReadTable(path);
  const size_t target = ColumnNamed(table, options.target);
  std::vector<size_t> columns = ColumnsOf(table, options.features, "--features");
  if (std::ranges::find(columns, target) != columns.end()) {
    throw Error(ErrorKind::kUsage, StrCat("the target \"", Printable(options.target), "\" is one of --features, too"));
  }
  for (size_t c = 0; options.features.empty() && c < table.columns(); ++c) {
    if (c != target) columns.push_back(c);
  }
  const std::vector<size_t> categories = ColumnsOf(table, options.one_hot, "--one-hot");
  for (const size_t column : categories) {
    if (std::ranges::find(columns, column) != columns.end()) continue;
    throw Error(ErrorKind::kUsage, StrCat("--one-hot names \"", Printable(NameOf(table, column)), "\", which is ",
                                          column == target ? "the target" : "none of the features"));
  }
  const std::set<size_t> one_hot(categories.begin(), categories.end());
  std::set<size_t> used(columns.begin(), columns.end());
  used.insert(target);
  CheckColumnNames(table, std::vector<size_t>(used.begin(), used.end()));
  TableReport report;
  report.dropped_rows = DropUnknown(table, used);
  TableFloats floats(table);
  const bool is_scaled = options.scaling == TableOptions::Scaling::kStandardize;
  Features features = FeaturesOf(table, columns, one_hot, is_scaled ? nullptr : &floats);
  std::vector<double> targets;
  std::vector<size_t> train;
  std::vector<size_t> test;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    targets.push_back(floats.At(row, target, kNumberHint));
    const auto every = static_cast<size_t>(std::max<int64_t>(0, options.test_every));
    (every > 0 && row % every == every - 1 ? test : train).push_back(row);
  }
  if (train.empty()) throw Error(ErrorKind::kBadData, StrCat(table.path, ": no rows are left to train on"));
  if (const std::string warning = floats.Warning(); !warning.empty()) LogWarning(warning);
  if (is_scaled) Standardize(train, features, report);
  report.columns = features.names;
  report.train_rows = static_cast<int64_t>(train.size());
  report.test_rows = static_cast<int64_t>(test.size());
  CreateFolders(out);
  WriteRows(out / "train_features", features.columns, train);
  WriteRows(out / "train_target", {targets}, train);
  if (!test.empty()) {
    WriteRows(out / "test_features", features.columns, test);
    WriteRows(out / "test_target", {targets}, test);
  }
  WriteReport(out, report, NameOf(table, target));
  return report;
}

}  // namespace moka
