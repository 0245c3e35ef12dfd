// Importer of pictures with numbers: lines "path,number,number.." below a line that names the columns.
#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/record_writer.h"
#include "data/sample_writing.h"
#include "data/text_table.h"

namespace moka {

namespace fs = std::filesystem;

ImportReport ImportCsv(const fs::path& file, const fs::path& root, const fs::path& out, const ImportOptions& options) {
  const Table table = ReadTable(file);
  if (table.header.empty()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = 1},
                "expected the names of the columns: that of the paths, then one of each number");
  }
  if (table.columns() < 2) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = table.path, .line = 1}, "there are no columns of numbers");
  }
  std::vector<fs::path> pictures;
  std::vector<std::vector<float>> targets(table.rows.size());
  TableFloats floats(table);
  int64_t bytes = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    pictures.push_back(root / table.rows[row][0]);
    for (size_t c = 1; c < table.columns(); ++c) targets[row].push_back(floats.At(row, c));
    std::error_code failed;
    const uintmax_t size = fs::file_size(pictures.back(), failed);
    if (!failed) bytes += static_cast<int64_t>(size);
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
    ImportItem item{.name = table.rows[row][0]};
    item.read = [&path = pictures[row]] { return ReadFile(path); };
    item.describe_sample = [&numbers = targets[row]](const Image&, SampleRecord& record, std::vector<std::string>&) {
      record.mutable_target()->Assign(numbers.begin(), numbers.end());
    };
    writer.Add(std::move(item));
  }
  SampleSchema schema = NewSchema();
  for (size_t c = 1; c < table.columns(); ++c) schema.add_target(table.header[c]);
  ImportReport report = writer.FinishSamples(schema);
  if (const std::string warning = floats.Warning(); !warning.empty()) report.warnings.push_back(warning);
  return report;
}

}  // namespace moka
