// All is counted from the rows, once each is there.
#include "data/check/source_summary.h"

#include <algorithm>

#include "core/text.h"

namespace moka {
namespace {

std::string NameOf(ImageHeader::Format format) {
  using Format = ImageHeader::Format;
  switch (format) {
    case Format::kJpeg: return "jpeg";
    case Format::kPng: return "png";
    case Format::kBmp: return "bmp";
    case Format::kWebp: return "webp";
    case Format::kGif: return "gif";
    case Format::kTiff: return "tiff";
    case Format::kPnm: return "pnm";
    case Format::kUnknown: break;
  }
  return "pixels";
}

SideRange RangeOf(std::vector<int32_t> sides) {
  if (sides.empty()) return {};
  std::ranges::sort(sides);
  return {sides.front(), sides[sides.size() / 2], sides.back()};
}

}  // namespace

SourceSummary SummaryOf(const SourceLook& look) {
  constexpr size_t kSizesNamed = 5;
  SourceSummary summary;
  std::vector<int32_t> widths;
  std::vector<int32_t> heights;
  std::map<std::pair<int32_t, int32_t>, int64_t> sizes;
  for (const PictureRow& row : look.rows()) {
    if (!row.is_seen) continue;
    ++summary.pictures;
    summary.bad += row.is_bad ? 1 : 0;
    summary.bytes += row.bytes;
    if (row.channels == 0) continue;
    widths.push_back(row.width);
    heights.push_back(row.height);
    ++sizes[{row.width, row.height}];
    ++summary.formats[NameOf(row.format)];
    ++summary.channels[row.channels == 1 ? "grey" : "colour"];
    if (row.orientation != 1) ++summary.orientations[row.orientation];
  }
  summary.width = RangeOf(std::move(widths));
  summary.height = RangeOf(std::move(heights));
  summary.distinct_sizes = std::ssize(sizes);
  for (const auto& [size, count] : sizes) summary.sizes.emplace_back(StrCat(size.first, "x", size.second), count);
  std::ranges::stable_sort(summary.sizes, std::ranges::greater(), &std::pair<std::string, int64_t>::second);
  if (summary.sizes.size() > kSizesNamed) summary.sizes.resize(kSizesNamed);
  return summary;
}

std::string ClassName(const std::vector<std::string>& names, int64_t label) {
  const bool is_named = label >= 0 && label < std::ssize(names);
  return is_named ? names[static_cast<size_t>(label)] : StrCat("class ", label);
}

std::vector<std::pair<std::string, int64_t>> NamedCounts(const std::map<int64_t, int64_t>& counts,
                                                         const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, int64_t>> named;
  for (const auto& [label, count] : counts) named.emplace_back(ClassName(names, label), count);
  return named;
}

std::vector<std::string> LabelNames(const SourceLook& look) {
  const SampleSchema& schema = look.schema();
  if (!schema.has_version()) return look.boxes().empty() ? look.report().labels : std::vector<std::string>();
  if (schema.label_size() != 1) return {};
  return {schema.label(0).class_name().begin(), schema.label(0).class_name().end()};
}

std::vector<std::string> BoxNames(const SourceLook& look) {
  if (!look.schema().has_version()) return look.boxes().empty() ? std::vector<std::string>() : look.report().labels;
  return {look.schema().box_class().begin(), look.schema().box_class().end()};
}

std::vector<std::string> MaskNames(const SourceLook& look) {
  return {look.schema().mask_class().begin(), look.schema().mask_class().end()};
}

}  // namespace moka
