#include "data/record_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/augment/cut.h"
#include "data/datum_view.h"
#include "data/layer_fields.h"

namespace moka {

namespace fs = std::filesystem;

Record RecordSource::Load(int64_t i, RecordScratch& scratch) const {
  Record record = Read(i, scratch);
  DecodeRecord(channels(), scratch, record);
  return record;
}

void ConvertPixels(ImageChannels channels, Image& converted, PixelView& pixels) {
  const int64_t wanted = ChannelCount(channels, pixels.channels);
  const bool is_picture = pixels.bytes != nullptr && (pixels.channels == 1 || pixels.channels == 3);
  if (!is_picture || pixels.channels == wanted) return;
  CutPicture(pixels, {.window = {0, 0, pixels.width, pixels.height}}, converted);
  ConvertChannels(wanted, converted);
  pixels = ViewOf(converted);
}

void DecodeRecord(ImageChannels channels, RecordScratch& scratch, Record& record) {
  if (record.file.empty()) return ConvertPixels(channels, scratch.image, record.pixels);
  scratch.decoder.Decode(record.file, {.channels = channels}, scratch.image);
  record.pixels = ViewOf(scratch.image);
  record.file = {};
}

Record LoadDatum(std::string_view wire, ImageChannels channels, RecordScratch& scratch) {
  Record record = ReadDatum(wire, scratch);
  DecodeRecord(channels, scratch, record);
  return record;
}

Record ReadDatum(std::string_view wire, RecordScratch& scratch) {
  const DatumView datum = ParseDatum(wire);
  Record record;
  record.label = static_cast<float>(datum.label);
  if (datum.encoded) {
    if (datum.data.empty()) throw Error(ErrorKind::kBadData, "an encoded Datum without an image file");
    record.file = datum.data;
    return record;
  }
  const int64_t count = datum.Count();
  const std::string shape = StrCat(datum.channels, "x", datum.height, "x", datum.width);
  if (count <= 0) throw Error(ErrorKind::kBadData, StrCat("a Datum of shape ", shape));
  record.pixels = {.channels = datum.channels, .height = datum.height, .width = datum.width};
  if (!datum.data.empty()) {
    if (static_cast<int64_t>(datum.data.size()) != count) {
      throw Error(ErrorKind::kBadData, StrCat("a Datum of shape ", shape, " with ", datum.data.size(), " bytes"));
    }
    record.pixels.bytes = reinterpret_cast<const uint8_t*>(datum.data.data());
    return record;
  }
  if (datum.float_count != count) {
    throw Error(ErrorKind::kBadData, StrCat("a Datum of shape ", shape, " with ", datum.float_count, " floats"));
  }
  scratch.floats.resize(static_cast<size_t>(count));
  datum.CopyFloats(scratch.floats);
  record.pixels.floats = scratch.floats.data();
  return record;
}

LmdbSource::LmdbSource(const fs::path& path, LmdbReader::Use use, ImageChannels channels, int64_t cache_bytes)
    : reader_(path, use),
      channels_(channels),
      cache_(cache_bytes > 0 ? std::make_unique<PictureCache>(reader_.size(), cache_bytes) : nullptr) {}

Record LmdbSource::Read(int64_t i, RecordScratch& scratch) const {
  if (const PictureCache::Kept* kept = cache_ ? cache_->Find(i) : nullptr) {
    ++scratch.cached;
    return {.pixels = ViewOf(kept->image), .label = kept->label};
  }
  return ReadDatum(reader_.value(i), scratch);
}

void LmdbSource::Keep(int64_t i, const Image& picture, float label) const {
  if (cache_) cache_->Offer(i, picture, label);
}

std::optional<int64_t> LmdbSource::ClassOf(int64_t i) const { return ParseDatum(reader_.unchecked_value(i)).label; }

std::vector<ListedImage> ReadImageList(const fs::path& path) {
  std::vector<ListedImage> images;
  const std::string text = ReadLinesFile(path);
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trim(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++line_number;
    if (line.empty()) continue;
    const size_t blank = line.find_last_of(" \t");
    ListedImage image;
    const std::string_view label = blank == std::string_view::npos ? "" : line.substr(blank + 1);
    const auto read = std::from_chars(label.data(), label.data() + label.size(), image.label);
    if (label.empty() || read.ec != std::errc() || read.ptr != label.data() + label.size()) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = path.string(), .line = line_number},
                  StrCat("expected \"path label\" with a whole number as label, found \"", Printable(line), "\""));
    }
    image.path = Trim(line.substr(0, blank));
    images.push_back(std::move(image));
  }
  if (images.empty()) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": the image list is empty"));
  return images;
}

std::vector<ListedImage> ReadImageList(const fs::path& path, int64_t labels) {
  std::vector<ListedImage> images;
  for (const ListLine& line : ReadListLines(path)) {
    const auto fail = [&](const std::string& text) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = path.string(), .line = line.number}, text);
    };
    const auto found = static_cast<int64_t>(line.words.size()) - 1;
    if (found != labels) {
      fail(StrCat("expected \"path\" and ", labels, " labels, found ", std::max<int64_t>(found, 0), " labels"));
    }
    ListedImage image{.path = line.words[0]};
    for (const std::string& word : std::span(line.words).subspan(1)) {
      float value = 0;
      const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
      if (read.ec != std::errc() || read.ptr != word.data() + word.size() || !std::isfinite(value)) {
        fail(StrCat("expected a number as label, found \"", Printable(word), "\""));
      }
      image.labels.push_back(value);
    }
    images.push_back(std::move(image));
  }
  return images;
}

std::string ImageListSource::NameOf(int64_t i) const {
  return StrCat("image \"", Printable(images_[static_cast<size_t>(i)].path), "\" (index ", i, ") of ",
                options_.list.string());
}

std::optional<int64_t> ImageListSource::ClassOf(int64_t i) const {
  if (options_.labels > 0) return std::nullopt;
  return images_[static_cast<size_t>(i)].label;
}

Record ImageListSource::Read(int64_t i, RecordScratch& scratch) const {
  const ListedImage& listed = images_[static_cast<size_t>(i)];
  scratch.file = ReadFile(options_.base / (options_.prefix + listed.path));
  Record record{.label = static_cast<float>(listed.label), .labels = listed.labels, .file = scratch.file};
  if (options_.height == 0 && !record.file.empty()) return record;
  scratch.clock.Enter(Stage::kDecode);
  scratch.decoder.Decode(scratch.file, {.channels = options_.channels}, scratch.image);
  ResizeImage(scratch.image, options_.width, options_.height, Interpolation::kLinear, scratch.resized);
  record.pixels = ViewOf(scratch.resized);
  record.file = {};
  return record;
}

}  // namespace moka
