// Looks into the data layer's source once more, for the few records that are shown.
#include "tools/report/record_names.h"

#include <string>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "data/records/lmdb_file.h"
#include "data/records/record_source.h"

namespace moka {
namespace {

void NameByDatabase(const LayerParameter& layer, const std::vector<int64_t>& records,
                    std::vector<ReportMistake>& mistakes) {
  const LmdbReader reader(layer.data_param().source(), LmdbReader::Access::kShuffled);
  for (size_t i = 0; i < mistakes.size(); ++i) {
    if (records[i] < reader.size()) mistakes[i].record = std::string(reader.key(records[i]));
  }
}

void NameByList(const LayerParameter& layer, const std::vector<int64_t>& records,
                std::vector<ReportMistake>& mistakes) {
  const QuietScope quiet;  // what is odd in the list was told as it was tested
  const std::vector<ListedImage> images = ReadImageList(layer.image_data_param().source());
  for (size_t i = 0; i < mistakes.size(); ++i) {
    if (records[i] < std::ssize(images)) mistakes[i].record = images[static_cast<size_t>(records[i])].path;
  }
}

}  // namespace

void NameRecords(const LayerParameter& layer, Pipeline* pipeline, std::vector<ReportMistake>& mistakes) {
  std::vector<int64_t> records;
  for (const ReportMistake& mistake : mistakes) {
    const int64_t record = pipeline == nullptr ? -1 : pipeline->RecordAt(mistake.sample.number);
    records.push_back(record >= 0 ? record : mistake.sample.number);
  }
  try {
    if (!layer.data_param().source().empty()) {
      NameByDatabase(layer, records, mistakes);
    } else if (!layer.image_data_param().source().empty()) {
      NameByList(layer, records, mistakes);
    }
  } catch (const Error&) {
    // The names are an extra: a database of another kind has none, and whatever is wrong was told as it was tested.
    for (ReportMistake& mistake : mistakes) mistake.record.clear();
  }
}

}  // namespace moka
