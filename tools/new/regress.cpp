// moka new regress: a table of numbers to a net that gives one of its columns: two layers of ReLUs beside a straight
// line, which few rows are enough for. A row is a record, features before the target, so that one order shuffles both;
// the layers that read it bring each column to mean 0 and deviation 1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/text_table.h"
#include "data/records/lmdb_writer.h"
#include "proto/moka.pb.h"
#include "tools/new/file_parts.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewestRows = 20;       // of the training
constexpr size_t kMostCategories = 32;    // values of a column that is no number
constexpr size_t kRowsOfCategory = 5;     // as many rows as values at least: names of rows are no categories
constexpr double kMostUnknown = 0.5;      // of a column's rows
constexpr double kLeastDeviation = 1e-6;  // of the largest number: below, a column is the same everywhere

struct TableSource {
  std::string file;    // or a folder of tables, one a part
  std::string target;  // empty: the last column
};

// "FILE" or "FILE,COLUMN"; a folder likewise. Errors: kNoInput.
TableSource SourceOf(const std::string& word) {
  std::error_code ignored;
  if (fs::exists(word, ignored)) return {word, {}};
  const size_t comma = word.rfind(',');
  if (comma == std::string::npos) throw Error(ErrorKind::kNoInput, StrCat(Printable(word), " does not exist"));
  return {word.substr(0, comma), word.substr(comma + 1)};
}

// A table whose rows are of one part, or, without a name, of all.
struct PartTable {
  std::string part;
  Table table;
};

// The training's first. Errors: kNoInput, kBadData for a folder without tables of parts, and for two of one part.
std::vector<PartTable> TablesOf(const std::string& file, const std::vector<PartFiles>& parts) {
  if (parts.empty()) return {{{}, ReadTable(file)}};
  std::vector<PartTable> tables;
  for (const PartFiles& part : parts) {
    if (part.files.size() > 1) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat(Printable(part.files[0].string()), " and ", Printable(part.files[1].string()),
                         " are both the part ", part.part),
                  "rename or remove one of them");
    }
    tables.push_back({part.part, ReadTable(part.files[0])});
  }
  return tables;
}

// Errors: those of PartFilesIn; kNoInput for a folder without tables of parts.
std::vector<PartFiles> PartsIn(const std::string& file, std::vector<std::string>& remarks) {
  std::error_code ignored;
  if (!fs::is_directory(file, ignored)) return {};
  std::vector<PartFiles> parts = PartFilesIn(file, remarks);
  if (!parts.empty()) return parts;
  throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(file), " is a folder without a table that is called train"),
              "expected train.csv and, where they are, val.csv and test.csv, or the file of a table");
}

// An input of the net: a column's number, or whether a column has a value.
struct Feature {
  size_t column = 0;
  std::optional<std::string> value;
  std::string name;
};

struct Columns {
  std::vector<Feature> features;
  size_t target = 0;
  std::vector<std::string> remarks;  // of columns that are left out
};

std::set<std::string> ValuesOf(const Table& table, size_t column) {
  std::set<std::string> values;
  for (const auto& row : table.rows) {
    if (!IsUnknownCell(row[column])) values.insert(row[column]);
  }
  return values;
}

// Why nothing can be learned from a column; empty where it is a feature.
std::string FaultOf(const Table& table, size_t column, const std::set<std::string>& values, bool is_number) {
  const auto unknown = std::ranges::count_if(
      table.rows, [&](const std::vector<std::string>& row) { return IsUnknownCell(row[column]); });
  if (static_cast<double>(unknown) > kMostUnknown * static_cast<double>(table.rows.size()))
    return StrCat(unknown, " of ", table.rows.size(), " rows do not have it");
  if (values.size() < 2) return "it is the same in all rows";
  if (is_number) return {};
  const bool are_few = values.size() <= kMostCategories && values.size() * kRowsOfCategory <= table.rows.size();
  return are_few ? std::string() : StrCat("it has ", values.size(), " different texts");
}

Columns ColumnsOf(const Table& table, const TableSource& source) {
  Columns columns;
  columns.target = source.target.empty() ? table.columns() - 1 : ColumnNamed(table, source.target);
  std::vector<size_t> used = {columns.target};
  for (size_t c = 0; c < table.columns(); ++c) {
    if (c == columns.target) continue;
    const std::set<std::string> values = ValuesOf(table, c);
    const bool is_number = std::ranges::all_of(values, IsNumber);
    if (const std::string fault = FaultOf(table, c, values, is_number); !fault.empty()) {
      columns.remarks.push_back(StrCat("column \"", Printable(NameOf(table, c)), "\" is left out: ", fault));
      continue;
    }
    used.push_back(c);
    if (is_number) columns.features.push_back({c, std::nullopt, NameOf(table, c)});
    for (const std::string& value : values) {
      if (!is_number) columns.features.push_back({c, value, StrCat(NameOf(table, c), "=", value)});
    }
  }
  CheckColumnNames(table, used);
  if (columns.features.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(table.path), ": no column is there to learn from"),
                columns.remarks.empty() ? "expected columns of numbers or of few texts" : columns.remarks.front());
  }
  return columns;
}

// The columns of the training's table as they lie in another part's. Errors: kBadData where one is missing.
Columns ColumnsIn(const Table& other, const Table& train, const Columns& columns) {
  if (other.header.empty() != train.header.empty()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = other.path, .line = 1},
                StrCat("the table has ", other.header.empty() ? "no names" : "names", " of columns, and ",
                       Printable(train.path), " has ", train.header.empty() ? "none" : "some"));
  }
  if (other.header.empty()) {
    if (other.columns() == train.columns()) return columns;
    throw Error(
        ErrorKind::kBadData, SourcePlace{.file = other.path, .line = other.lines.front()},
        StrCat("the table has ", other.columns(), " columns, and ", Printable(train.path), " has ", train.columns()));
  }
  const auto place_of = [&](size_t column) {
    const std::string name = NameOf(train, column);
    const auto found = std::ranges::find(other.header, name);
    if (found != other.header.end()) return static_cast<size_t>(found - other.header.begin());
    throw Error(ErrorKind::kBadData, SourcePlace{.file = other.path, .line = other.header_line},
                StrCat("there is no column \"", Printable(name), "\", which ", Printable(train.path), " has"),
                DidYouMean(name, other.header));
  };
  Columns found = columns;
  found.target = place_of(columns.target);
  for (Feature& feature : found.features) feature.column = place_of(feature.column);
  return found;
}

// Errors: kBadData at the line of a text that no row of the training has.
void CheckTexts(const Table& table, size_t row, const Columns& columns, const std::string& train) {
  std::map<size_t, bool> is_known;  // by columns of texts
  for (const Feature& feature : columns.features) {
    if (feature.value) is_known[feature.column] |= table.rows[row][feature.column] == *feature.value;
  }
  for (const auto& [column, is] : is_known) {
    if (is) continue;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = table.lines[row]},
                StrCat("\"", Printable(table.rows[row][column]), "\" of column \"", Printable(NameOf(table, column)),
                       "\" is in no row of ", Printable(train)));
  }
}

// Rows as records: features in their order, then the target.
struct Rows {
  std::vector<std::vector<float>> numbers;
  std::vector<int> parts;  // of Parting::names(); -1: of none
  std::vector<std::string> remarks;
};

void AddRows(const PartTable& of_part, const Columns& columns, const std::string& train, Parting& parting, Rows& rows) {
  const Table& table = of_part.table;
  TableFloats floats(table);
  std::set<size_t> used = {columns.target};
  for (const Feature& feature : columns.features) used.insert(feature.column);
  int64_t unknown = 0;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const std::vector<std::string>& cells = table.rows[r];
    if (std::ranges::any_of(used, [&](size_t c) { return IsUnknownCell(cells[c]); })) {
      ++unknown;
      continue;
    }
    CheckTexts(table, r, columns, train);
    std::vector<float> numbers;
    for (const Feature& feature : columns.features) {
      const float is_value = feature.value && cells[feature.column] == *feature.value ? 1.0F : 0.0F;
      numbers.push_back(feature.value ? is_value : floats.At(r, feature.column));
    }
    numbers.push_back(floats.At(r, columns.target, "the target is a number; SOURCE,COLUMN names another column"));
    rows.numbers.push_back(std::move(numbers));
    rows.parts.push_back(parting.PartOf(of_part.part, Hash64(Join(cells, "\x1f"), 0)));
  }
  if (unknown > 0) {
    rows.remarks.push_back(StrCat(of_part.part.empty() ? "" : StrCat(of_part.part, ": "), unknown, " of ",
                                  table.rows.size(), " rows are left out: a column is unknown there"));
  }
  if (const std::string warning = floats.Warning(); !warning.empty()) rows.remarks.push_back(warning);
}

void WritePart(const fs::path& out, const Rows& rows, const std::vector<int64_t>& chosen) {
  LmdbWriter writer(out);
  for (const int64_t i : chosen) {
    const std::vector<float>& numbers = rows.numbers[static_cast<size_t>(i)];
    Datum datum;
    datum.set_channels(static_cast<int32_t>(numbers.size()));
    datum.set_height(1);
    datum.set_width(1);
    datum.mutable_float_data()->Assign(numbers.begin(), numbers.end());
    writer.Put(LmdbKey(writer.entries(), StrCat("row", i)), datum.SerializeAsString());
  }
  writer.Finish();
}

NewData PartsOf(const NewSource& source, const Parting& parting, const Rows& rows) {
  NewData data;
  data.source = source.word;
  data.items = "rows";
  data.hashed = "its text";
  data.parts = parting.Parts(source.word, rows.numbers.size());
  for (size_t i = 0; i < rows.numbers.size(); ++i) {
    if (rows.parts[i] < 0) continue;
    NewPart& part = data.parts[static_cast<size_t>(rows.parts[i])];
    part.pictures.push_back(static_cast<int64_t>(i));
    if (!part.chosen.empty()) part.chosen[i] = true;
  }
  CheckPartSizes(data, kFewestRows, StrCat(Printable(source.word), " has ", rows.numbers.size(), " that are whole"));
  return data;
}

// Mean and deviation of each column over the training.
ColorFacts ScalesOf(const Rows& rows, const NewPart& train) {
  const size_t columns = rows.numbers.front().size();
  const auto count = static_cast<double>(train.size());
  ColorFacts scales{std::vector<double>(columns), std::vector<double>(columns)};
  for (size_t c = 0; c < columns; ++c) {
    const auto at = [&](int64_t i) { return static_cast<double>(rows.numbers[static_cast<size_t>(i)][c]); };
    double most = 0;
    for (const int64_t i : train.pictures) scales.mean[c] += at(i) / count;
    for (const int64_t i : train.pictures) {
      most = std::max(most, std::abs(at(i)));
      scales.deviation[c] += (at(i) - scales.mean[c]) * (at(i) - scales.mean[c]) / count;
    }
    scales.deviation[c] = std::sqrt(scales.deviation[c]);
    // A value that few rows have may be that of no row of the training.
    if (scales.deviation[c] <= kLeastDeviation * most) scales.deviation[c] = 1;
  }
  return scales;
}

// "mean_value: 1 mean_value: 2", as exact as a float is.
std::string Fields(std::string_view field, const std::vector<double>& values, size_t count) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < count; ++i) parts.push_back(StrCat(field, ": ", ToText(static_cast<float>(values[i]))));
  return Join(parts, " ");
}

// A table of the columns, their means and deviations.
std::string ColumnRows(const Columns& columns, const std::string& target, const ColorFacts& scales) {
  std::string rows;
  for (size_t c = 0; c < scales.mean.size(); ++c) {
    const bool is_target = c == columns.features.size();
    rows += fmt::format("| {}{} | {:.4g} | {:.4g} |\n", Printable(is_target ? target : columns.features[c].name),
                        is_target ? " (the target)" : "", scales.mean[c], scales.deviation[c]);
  }
  return rows;
}

void SetWidth(int64_t width, Values& values) { values["w1"] = StrCat(width); }

Search SearchOf(const NewData& data, const NewOptions& options, size_t features) {
  constexpr int64_t kFew = 500;
  constexpr int64_t kMany = 5000;
  const int64_t rows = data.train().size();
  Search search;
  search.items = data.items;
  search.widths = rows < kFew ? std::vector<int64_t>{32, 16} : std::vector<int64_t>{128, 64, 32};
  if (rows >= kMany && options.budget.size != NewSize::kSmall) search.widths = {512, 256, 128, 64};
  search.pictures = rows;
  search.batch = std::clamp<int64_t>(rows / 16, 8, 256);
  search.samples = 100'000;
  search.least_epochs = 20;
  search.most_epochs = 150;
  search.shapes = {{"row", Shape{search.batch, static_cast<int64_t>(features) + 1, 1, 1}}};
  return search;
}

NewModel MakeRegressor(const NewSource& source, const NewOptions& options) {
  const TableSource named = SourceOf(source.word);
  Rows rows;
  const std::vector<PartFiles> own = PartsIn(named.file, rows.remarks);
  Parting parting(source, own);
  const std::vector<PartTable> tables = TablesOf(named.file, own);
  const Table& table = tables.front().table;
  const Columns columns = ColumnsOf(table, named);
  for (const PartTable& part : tables) {
    const bool is_train = &part == &tables.front();
    AddRows(part, is_train ? columns : ColumnsIn(part.table, table, columns), table.path, parting, rows);
  }
  NewData data = PartsOf(source, parting, rows);
  data.remarks = parting.CopiesIn(data.items);
  for (const auto* remarks : {&columns.remarks, &std::as_const(rows).remarks})
    data.remarks.insert(data.remarks.end(), remarks->begin(), remarks->end());
  source.tell(data.remarks);
  const size_t features = columns.features.size();
  const std::string target = NameOf(table, columns.target);
  const ColorFacts scales = ScalesOf(rows, data.train());
  const std::vector<float> first = rows.numbers[static_cast<size_t>(data.train().pictures.front())];
  const bool is_constant = std::ranges::all_of(
      data.train().pictures, [&](int64_t i) { return rows.numbers[static_cast<size_t>(i)].back() == first.back(); });
  if (is_constant) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("the target \"", Printable(target), "\" is ", ToText(first.back()), " in all rows"),
                "SOURCE,COLUMN names another column");
  }
  Search search = SearchOf(data, options, features);
  Values values = CommonValues(data, options);
  AddTestBatches(data, 1000, values);
  values["target"] = Printable(target);
  values["features"] = StrCat(features);
  values["batch"] = StrCat(search.batch);
  values["row_scales"] = StrCat(Fields("mean_value", scales.mean, features + 1), "\n    ",
                                Fields("std_value", scales.deviation, features + 1));
  values["feature_scales"] =
      StrCat(Fields("mean_value", scales.mean, features), "\n    ", Fields("std_value", scales.deviation, features));
  values["target_mean"] = ToText(static_cast<float>(scales.mean.back()));
  values["target_std"] = ToText(static_cast<float>(scales.deviation.back()));
  values["column_rows"] = ColumnRows(columns, target, scales);
  const Recipe recipe{
      .text = RegressTemplate(), .front = {"head"}, .columns = {"columns"}, .net = {"body"}, .set_width = SetWidth};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  NewModel model =
      MakeModel(recipe, data, choice,
                fmt::format("\"{}\"{} from {} columns", Printable(target),
                            named.target.empty() ? " (the last column; SOURCE,COLUMN names another)" : "", features),
                values);
  std::string names;
  for (const Feature& feature : columns.features) names += feature.name + "\n";
  model.files["labels.txt"] = names + target + "\n";
  for (const NewPart& part : data.parts) WritePart(source.databases / part.name, rows, part.pictures);
  return model;
}

}  // namespace

NewTask RegressNewTask() {
  return {.name = "regress",
          .source =
              "a table (CSV and the like) whose last column is the target, or TABLE,COLUMN; a folder with train.csv "
              "and val.csv",
          .make = MakeRegressor};
}

}  // namespace moka
