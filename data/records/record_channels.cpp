// Looks at some records' headers, for a bounded time, as a warning about mixed colours is not worth reading a whole
// set.
#include "data/records/record_channels.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/image/image_formats.h"
#include "data/layer_fields.h"
#include "data/record_kind.h"
#include "data/records/annotated_record.h"
#include "data/records/datum_view.h"
#include "proto/record.pb.h"

namespace moka {
namespace {

constexpr int64_t kMostLookedAt = 4096;
// On a disk that is slow to find things; once one record has shown how all are read, the others are for the warning.
constexpr std::chrono::milliseconds kLongestLook(500);

// Returns the channels of a picture's file; a JPEG's and a PNG's headers say them, other files are decoded.
int64_t ChannelsOfFile(std::string_view file, ImageDecoder& decoder) {
  constexpr size_t kPngColorAt = 25;
  const ImageHeader::Format format = ReadImageHeader(file).format;
  if (format == ImageHeader::Format::kPng) return BoundedBytes(file).At(kPngColorAt) == 0 ? 1 : 3;
  if (format == ImageHeader::Format::kGif || format == ImageHeader::Format::kWebp) return 3;
  return decoder.Open(file, {.damage = DecodeOptions::Damage::kLenient}).channels;
}

// 0 for what is no picture: floats, and bytes of another number of channels.
int64_t ChannelsOfRecord(std::string_view wire, RecordKind kind, ImageDecoder& decoder) {
  if (kind == RecordKind::kSample) {
    SampleRecord record;
    if (!record.ParseFromArray(wire.data(), static_cast<int>(std::min<size_t>(wire.size(), INT32_MAX)))) return 0;
    return record.height() > 0 ? record.channels() : ChannelsOfFile(record.picture(), decoder);
  }
  AnnotatedRecord annotated;
  if (kind == RecordKind::kAnnotated) ParseAnnotated(wire, annotated);
  const DatumView datum = ParseDatum(kind == RecordKind::kAnnotated ? annotated.datum : wire);
  if (datum.encoded) return ChannelsOfFile(datum.data, decoder);
  return datum.data.empty() ? 0 : datum.channels;
}

}  // namespace

bool IsToForceColor(const LayerParameter& layer, const LmdbReader& reader) {
  const RecordKind kind = DataRowOf(layer).database.value();
  const TransformationParameter fields = PictureFieldsOf(layer);
  if (fields.force_color() || fields.force_gray()) return false;
  const auto begin = std::chrono::steady_clock::now();
  ImageDecoder decoder;
  int64_t looked_at = 0;
  int64_t gray = 0;
  int64_t first_gray = -1;
  int64_t colored = 0;
  const int64_t step = std::max<int64_t>(1, (reader.size() + kMostLookedAt - 1) / kMostLookedAt);
  for (int64_t i = 0; i < reader.size(); i += step) {
    int64_t channels = 0;
    try {
      channels = ChannelsOfRecord(reader.unchecked_value(i), kind, decoder);
    } catch (const Error&) {  // a bad record is told when its turn comes
      continue;
    }
    ++looked_at;
    if (channels == 1 && ++gray == 1) first_gray = i;
    if (channels == 3) ++colored;
    if (colored > 0 && std::chrono::steady_clock::now() - begin > kLongestLook) break;
  }
  if (colored == 0) return false;
  if (gray == 0) return true;
  LogWarning(StrCat("layer \"", layer.name(), "\": ", gray, " of ", looked_at,
                    " records looked at are grey among coloured ", "ones, the first ", reader.NameOf(first_gray),
                    ": they are read as three equal channels (set transform_param.force_color, or force_gray, to say "
                    "which is meant)"));
  return true;
}

}  // namespace moka
