// Importer of pictures with numbers: lines "path,number,number.." below a line that names the columns.
#include <charconv>
#include <numeric>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/list_text.h"
#include "data/files/text_table.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/sample_writing.h"

namespace moka {

namespace fs = std::filesystem;

namespace {

// Errors: kBadData unless the first column is of paths and others are there, with names.
void CheckCsv(const Table& table) {
  if (table.header.empty()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = 1},
                "expected the names of the columns: that of the paths, then one of each number");
  }
  if (table.columns() < 2) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = 1}, "there are no columns of numbers");
  }
  double number = 0;
  const std::string& path = table.rows.front()[0];
  const auto read = std::from_chars(path.data(), path.data() + path.size(), number);
  if (table.header[0].empty() && read.ec == std::errc() && read.ptr == path.data() + path.size()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = 1},
                "the first column has no name and holds numbers, expected the paths",
                "pandas writes its index there: to_csv(FILE, index=False) leaves it out");
  }
  std::vector<size_t> target_columns(table.columns() - 1);
  std::iota(target_columns.begin(), target_columns.end(), size_t{1});
  CheckColumnNames(table, target_columns);
}

// The numbers of each row, and the warnings that reading them gives.
std::vector<std::vector<float>> ReadTargets(const Table& table, std::vector<std::string>& warnings) {
  std::vector<std::vector<float>> targets(table.rows.size());
  TableFloats floats(table);
  const std::string hint = "the first column has the paths, all others numbers";
  std::vector<NamedLine> names;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    for (size_t c = 1; c < table.columns(); ++c) targets[row].push_back(floats.At(row, c, hint));
    names.push_back({table.rows[row][0], table.lines[row]});
  }
  const std::string repeated = RepeatedNames(table.path, names, "row of numbers", [&](size_t row) {
    return Join({table.rows[row].begin() + 1, table.rows[row].end()}, " ");
  });
  if (const std::string warning = floats.Warning(); !warning.empty()) warnings.push_back(warning);
  if (!repeated.empty()) warnings.push_back(repeated);
  return targets;
}

struct CsvPicture {
  fs::path path;
  int64_t bytes = 0;
};

}  // namespace

ImportReport ImportCsv(const fs::path& file, const fs::path& root, const fs::path& out, const ImportOptions& options) {
  const Table table = ReadTable(file);
  CheckCsv(table);
  std::vector<std::string> warnings;
  const std::vector<std::vector<float>> targets = ReadTargets(table, warnings);
  std::vector<CsvPicture> pictures;
  int64_t bytes = 0;
  for (const auto& row : table.rows) {
    const fs::path path = root / row[0];
    pictures.push_back({path, BytesOfFile(path)});
    bytes += pictures.back().bytes;
  }
  const auto count = static_cast<int64_t>(pictures.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("csv ", file.string(), " ", root.string()),
                       .items = count,
                       .crc32c = Crc32c(ReadLinesFile(file)),
                       .bytes = bytes,
                       .kind = RecordKind::kSample});
  for (const int64_t i : ImportOrder(count, options)) {
    const auto row = static_cast<size_t>(i);
    ImportItem item{.name = table.rows[row][0], .file_bytes = pictures[row].bytes};
    item.read = [&path = pictures[row].path, &file, &root] {
      try {
        return ReadFile(path);
      } catch (const Error& e) {
        throw Error(e.kind(), {}, e.text(),
                    e.kind() == ErrorKind::kNoInput ? RootHint("csv", file, root, path) : e.hint());
      }
    };
    item.describe_sample = [&numbers = targets[row]](const Image&, SampleRecord& record, RecordWarnings&) {
      record.mutable_target()->Assign(numbers.begin(), numbers.end());
    };
    writer.Add(std::move(item));
  }
  SampleSchema schema = NewSchema();
  for (size_t c = 1; c < table.columns(); ++c) schema.add_target(table.header[c]);
  ImportReport report = writer.FinishSamples(schema);
  report.warnings.insert(report.warnings.end(), warnings.begin(), warnings.end());
  return report;
}

SourceKind CsvSource() {
  return {.kind = "csv",
          .parts = "FILE[,ROOT]",
          .makes = "lines \"path,number..\" with a header: targets",
          .least = 1,
          .most = 2,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportCsv(parts[0], parts[1], out, options);
          }};
}

}  // namespace moka
