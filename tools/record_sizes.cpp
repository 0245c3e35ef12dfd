#include "tools/record_sizes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/picture_reader.h"

namespace moka {
namespace {

constexpr int64_t kSizesLimitBytes = int64_t{1} << 20;
constexpr int64_t kMostPixelsOfASide = 1 << 16;

}  // namespace

std::string RecordSizesText(const std::vector<const NetParameter*>& nets) {
  nlohmann::ordered_json sizes;
  for (const NetParameter* net : nets) {
    for (const LayerParameter& layer : net->layer()) {
      if (!NeedsRecords(layer)) continue;
      try {
        const std::optional<ImageSize> size = StoredPicturesOf(layer, {});
        if (size && (size->height > 0 || size->channels > 0))
          sizes[layer.name()] = {size->height, size->width, size->channels};
      } catch (const Error&) {
        continue;  // a damaged record is told, or skipped, by the test that reads it
      }
    }
  }
  return sizes.empty() ? std::string()
                       : sizes.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<ImageSize> KeptRecordSize(const std::filesystem::path& folder, const std::string& layer) {
  const std::filesystem::path file = folder / kRecordSizesFile;
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code)) return {};
  const auto sizes = nlohmann::json::parse(ReadFile(file, kSizesLimitBytes), nullptr, false);
  if (sizes.is_object() && !sizes.contains(layer)) return {};
  std::vector<int64_t> kept;
  const nlohmann::json entry = sizes.is_object() ? sizes[layer] : nlohmann::json();
  for (const nlohmann::json& number : entry.is_array() ? entry : nlohmann::json::array()) {
    kept.push_back(number.is_number_integer() ? number.get<int64_t>() : -1);
  }
  const int64_t least = kept.size() == 2 ? 1 : 0;
  const auto is_wrong = [&](int64_t number) { return number < least || number > kMostPixelsOfASide; };
  if ((kept.size() != 2 && kept.size() != 3) || std::ranges::any_of(kept, is_wrong) ||
      (kept[0] == 0) != (kept[1] == 0)) {
    throw Error(ErrorKind::kBadData,
                StrCat(file.string(), ": not sizes of records, {\"LAYER\": [height, width, channels]}"));
  }
  return ImageSize{kept.size() == 3 ? kept[2] : 0, kept[0], kept[1]};
}

}  // namespace moka
