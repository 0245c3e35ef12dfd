// Threads make a row each by themselves and take the lock to put it down.
#include "data/check/source_look.h"

#include <unistd.h>

#include <algorithm>

#include "core/checksum.h"
#include "core/text.h"
#include "data/check/database_look.h"
#include "data/image/image_formats.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "proto/moka.pb.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Two hashes of 64 bits with different seeds: two pictures of one content are not met by chance.
std::array<uint64_t, 2> ContentOf(std::string_view bytes, uint64_t seed) {
  constexpr uint64_t kOther = 0x9E3779B97F4A7C15;
  return {Hash64(bytes, seed), Hash64(bytes, seed ^ kOther)};
}

std::array<uint64_t, 2> ContentOf(const Image& image) {
  const std::string_view pixels(reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size());
  return ContentOf(pixels, StableHash(StrCat(image.channels, "x", image.height, "x", image.width)));
}

int OrientationOf(std::string_view file, ImageHeader::Format format) {
  constexpr uint32_t kOrientationTag = 0x112;
  constexpr uint64_t kMost = 8;
  if (format != ImageHeader::Format::kTiff) return ExifOrientation(file);
  const uint64_t tag = TiffTag(file, kOrientationTag);
  return tag >= 1 && tag <= kMost ? static_cast<int>(tag) : 1;
}

// The place that an error names stands before it.
Error WithPlace(const Error& error) {
  const std::string place = error.place().ToString();
  const std::string hint = error.hint().empty() ? "" : StrCat(" (", error.hint(), ")");
  return Error(error.kind(), place.empty() ? StrCat(error.text(), hint) : StrCat(place, ": ", error.text(), hint));
}

std::map<int64_t, int64_t> PixelsByValue(const std::string& mask) {
  std::map<int64_t, int64_t> counts;
  Image image;
  ImageDecoder().Decode(mask, {.orientation = DecodeOptions::Orientation::kAsStored}, image);
  std::array<int64_t, 256> pixels = {};
  for (const uint8_t value : image.pixels) ++pixels.at(value);
  for (size_t value = 0; value < pixels.size(); ++value) {
    if (pixels.at(value) > 0) counts[static_cast<int64_t>(value)] = pixels.at(value);
  }
  return counts;
}

}  // namespace

SourceLook::SourceLook(std::string source) : source_(std::move(source)) {
  std::error_code ignored;
  is_folder_ = fs::is_directory(source_, ignored) && !IsDatabase(source_);
}

PictureRow SourceLook::RowOf(const SeenItem& seen) const {
  PictureRow row;
  row.name = seen.item.name;
  row.bytes = static_cast<int64_t>(seen.file.size());
  row.format = seen.format;
  row.losses = seen.losses;
  row.is_seen = true;
  row.is_bad = !seen.faults.empty();
  row.has_label = seen.label.has_value();
  row.label = seen.label.value_or(0);
  if (!seen.file.empty()) row.content = ContentOf(seen.file, 0);
  if (seen.image == nullptr) return row;
  if (seen.file.empty()) row.content = ContentOf(*seen.image);
  row.width = static_cast<int32_t>(seen.image->width);
  row.height = static_cast<int32_t>(seen.image->height);
  row.channels = static_cast<uint8_t>(seen.image->channels);
  row.orientation = static_cast<uint8_t>(OrientationOf(seen.file, seen.format));
  row.look = PerceptualHashOf(*seen.image);
  return row;
}

void SourceLook::Count(const SeenItem& seen, const std::map<int64_t, int64_t>& mask_pixels) {
  if (seen.label && seen.faults.empty()) ++labels_[*seen.label];
  if (seen.annotated != nullptr) {
    for (const auto& group : seen.annotated->annotation_group()) boxes_[group.group_label()] += group.annotation_size();
  }
  for (const auto& [value, count] : mask_pixels) mask_pixels_[value] += count;
  if (seen.sample == nullptr) return;
  for (const SampleBox& box : seen.sample->box()) ++boxes_[box.label()];
  targets_.resize(std::max(targets_.size(), static_cast<size_t>(seen.sample->target_size())));
  for (int i = 0; i < seen.sample->target_size(); ++i) {
    TargetRange& range = targets_[static_cast<size_t>(i)];
    range.least = std::min<double>(range.least, seen.sample->target(i));
    range.most = std::max<double>(range.most, seen.sample->target(i));
  }
}

void SourceLook::Visit(const SeenItem& seen) {
  PictureRow row = RowOf(seen);
  std::map<int64_t, int64_t> mask_pixels;
  RecordWarnings warnings = seen.warnings;
  try {
    if (seen.sample != nullptr && !seen.sample->mask().empty()) mask_pixels = PixelsByValue(seen.sample->mask());
  } catch (const Error& error) {
    warnings.push_back({NamedFault(seen.item.name, error)});
  }
  const std::string& name = seen.item.place.empty() ? seen.item.name : seen.item.place;
  const std::lock_guard lock(mutex_);
  for (const ItemFault& fault : seen.faults) {
    std::string text = NamedFault(name, WithPlace(fault.error));
    if (is_folder_ && text.starts_with(seen.item.name)) text = (fs::path(source_) / text).string();
    faults_.push_back({seen.item.index, fault.kind, std::move(text)});
  }
  for (RecordWarning& warning : warnings) warnings_.push_back({seen.item.index, std::move(warning)});
  Count(seen, mask_pixels);
  const auto index = static_cast<size_t>(seen.item.index);
  if (index >= rows_.size()) rows_.resize(index + 1);
  rows_[index] = std::move(row);
}

void SourceLook::Finish(ImportReport report) {
  report_ = std::move(report);
  std::ranges::stable_sort(faults_, {}, &SeenFault::index);
  std::ranges::stable_sort(warnings_, {}, &SeenWarning::index);
}

std::string SourceLook::PlaceOf(int64_t index) const {
  const std::string& name = rows_[static_cast<size_t>(index)].name;
  return is_folder_ ? (fs::path(source_) / name).string() : StrCat(source_, ": ", name);
}

ImportReport VisitSource(const std::string& source, const ImportOptions& options) {
  constexpr std::string_view kDatabase = "lmdb:";
  std::error_code ignored;
  if (fs::is_directory(source, ignored)) {
    if (IsDatabase(source)) return VisitDatabase(source, options);
  } else if (source.starts_with(kDatabase)) {
    return VisitDatabase(source.substr(kDatabase.size()), options);
  }
  // Nothing is written there but for the links through which a LevelDB is read.
  return Import(source, fs::temp_directory_path() / StrCat("moka_data_check_", getpid()), options);
}

}  // namespace moka
