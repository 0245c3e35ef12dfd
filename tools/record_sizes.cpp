#include "tools/record_sizes.h"

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
      if (!NeedsRecordSize(layer)) continue;
      try {
        const std::optional<ImageSize> size = RecordSizeOf(layer, {});
        if (size) sizes[layer.name()] = {size->height, size->width};
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
  const auto is_side = [](const nlohmann::json& side) {
    return side.is_number_integer() && side.get<int64_t>() >= 1 && side.get<int64_t>() <= kMostPixelsOfASide;
  };
  if (sizes.is_object() && !sizes.contains(layer)) return {};
  if (!sizes.is_object() || !sizes[layer].is_array() || sizes[layer].size() != 2 || !is_side(sizes[layer][0]) ||
      !is_side(sizes[layer][1])) {
    throw Error(ErrorKind::kBadData, StrCat(file.string(), ": not sizes of records, {\"LAYER\": [height, width]}"));
  }
  ImageSize size;
  size.height = sizes[layer][0].get<int64_t>();
  size.width = sizes[layer][1].get<int64_t>();
  return size;
}

}  // namespace moka
