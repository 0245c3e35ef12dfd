// Reads and writes config/record_sizes.json, the present form and an earlier one.
#include "tools/train/record_sizes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/inspect/picture_reader.h"

namespace moka {
namespace {

constexpr int64_t kSizesLimitBytes = int64_t{1} << 20;
constexpr int64_t kMostPixelsOfASide = 1 << 16;

}  // namespace

std::string RecordSizesText(const std::vector<const NetParameter*>& nets) {
  nlohmann::ordered_json sizes;
  for (const NetParameter* net : nets) {
    for (const LayerParameter& layer : net->layer()) {
      if (!HasRecords(layer)) continue;
      try {
        const std::optional<StoredPictures> found = StoredPicturesOf(layer, {});
        if (!found || (found->height == 0 && found->channels == 0 && !found->HasSides())) continue;
        // Numbers of a table, say, are no pictures.
        if (std::max({found->height, found->width, found->channels}) > kMostPixelsOfASide) continue;
        nlohmann::ordered_json entry = {found->height, found->width, found->channels};
        if (found->are_sides_known) {
          entry.push_back(found->min_side);
          entry.push_back(found->max_side);
          if (found->short_side > 0) entry.push_back(found->short_side);
        }
        sizes[layer.name()] = entry;
      } catch (const Error&) {
        continue;  // a damaged record is told, or skipped, by the test that reads it
      }
    }
  }
  return sizes.empty() ? std::string()
                       : sizes.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<StoredPictures> KeptRecordSize(const std::filesystem::path& folder, const std::string& layer) {
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
  const bool has_sides = kept.size() == 5 || kept.size() == 6;
  if ((kept.size() != 2 && kept.size() != 3 && !has_sides) || std::ranges::any_of(kept, is_wrong) ||
      (kept[0] == 0) != (kept[1] == 0)) {
    throw Error(
        ErrorKind::kBadData,
        StrCat(
            file.string(),
            ": not sizes of records, {\"LAYER\": [height, width, channels]}, or with bounds of the sides after them"));
  }
  StoredPictures stored{ImageSize{kept.size() >= 3 ? kept[2] : 0, kept[0], kept[1]}};
  if (has_sides) {
    stored.min_side = kept[3];
    stored.max_side = kept[4];
    stored.short_side = kept.size() == 6 ? kept[5] : 0;
    stored.are_sides_known = true;
  }
  return stored;
}

}  // namespace moka
