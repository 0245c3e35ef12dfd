// Lists of files and databases under one interface, and the parsing of list lines in Caffe's form with quotes added.
#include "data/records/record_source.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/list_text.h"
#include "data/files/non_finite.h"
#include "data/image/cut.h"
#include "data/layer_fields.h"
#include "data/records/datum_view.h"

namespace moka {

namespace fs = std::filesystem;

namespace {

// A name may be quoted; two quotes inside stand for one.
std::string UnquotedName(std::string_view text) {
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    name += text[i];
    if (text.substr(i, 2) == "\"\"") ++i;
  }
  return name;
}

// A path may hold blanks, and stand in quotes: the label is what follows the last blank.
ListedImage ListedImageOf(const ListTextLine& line, const fs::path& path) {
  const std::string_view text = line.text;
  const SourcePlace place{.file = path.string(), .line = line.number};
  const size_t blank = text.find_last_of(" \t");
  const std::string_view label = blank == std::string_view::npos ? "" : text.substr(blank + 1);
  ListedImage image;
  const auto read = std::from_chars(label.data(), label.data() + label.size(), image.label);
  if (label.empty() || read.ec != std::errc() || read.ptr != label.data() + label.size()) {
    const bool has_commas = blank == std::string_view::npos && text.find(',') != std::string_view::npos;
    throw Error(ErrorKind::kBadData, place,
                StrCat("expected \"path label\" with a whole number as label, found \"", Printable(text), "\""),
                has_commas ? "a blank or a tab parts the two, not a comma" : "");
  }
  CheckWhole(image.label, "the label", place);
  std::string_view name = Trim(text.substr(0, blank));
  const bool is_quoted = name.size() > 2 && name.front() == '"' && name.back() == '"';
  image.path = is_quoted ? UnquotedName(name.substr(1, name.size() - 2)) : name;
  image.line = line.number;
  return image;
}

// Warns of pictures that a list has twice.
void TellRepeated(const std::vector<ListedImage>& images, const fs::path& path) {
  std::vector<NamedLine> names;
  names.reserve(images.size());
  for (const ListedImage& image : images) names.push_back({image.path, image.line});
  const std::string warning = RepeatedNames(path.string(), names, "label", [&](size_t i) {
    const std::vector<float>& several = images[i].labels;
    std::string text = several.empty() ? StrCat("label ", images[i].label) : "labels";
    for (const float label : several) text += StrCat(" ", label);
    return text;
  });
  if (!warning.empty()) LogWarning(warning);
}

}  // namespace

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
  if (!IsExactFloat(datum.label)) CheckWhole(datum.label, "the label", {});
  record.label = static_cast<float>(datum.label);
  if (!datum.data.empty() && datum.float_count > 0) {
    throw Error(ErrorKind::kBadData, StrCat("a Datum with data and float_data, ", datum.data.size(), " bytes and ",
                                            datum.float_count, " floats: expected one of them"));
  }
  if (datum.encoded) {
    if (datum.data.empty()) throw Error(ErrorKind::kBadData, "an encoded Datum without an image file");
    record.file = datum.data;
    return record;
  }
  const int64_t count = datum.Count();
  const std::string shape = StrCat(datum.channels, "x", datum.height, "x", datum.width);
  if (count <= 0) throw Error(ErrorKind::kBadData, StrCat("a Datum of shape ", shape, WhatValueIs(wire)));
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

LmdbSource::LmdbSource(std::unique_ptr<const LmdbReader> reader, ImageChannels channels, int64_t cache_bytes)
    : reader_(std::move(reader)),
      channels_(channels),
      cache_(cache_bytes > 0 ? std::make_unique<PictureCache>(reader_->size(), cache_bytes) : nullptr) {}

Record LmdbSource::Read(int64_t i, RecordScratch& scratch) const {
  if (const PictureCache::Kept* kept = cache_ ? cache_->Find(i) : nullptr) {
    ++scratch.cached;
    return {.pixels = ViewOf(kept->image), .label = kept->label};
  }
  const Record record = ReadDatum(reader_->value(i), scratch);
  if (record.pixels.floats != nullptr) TellNonFinite(i, scratch.floats);
  return record;
}

// A value that is not finite is no error here, as it is none in HDF5 files (data/pipeline/hdf5_pipeline.cpp).
void LmdbSource::TellNonFinite(int64_t i, std::span<const float> values) const {
  // In two passes each record is looked at, though some are read before the first.
  constexpr int64_t kPasses = 2;
  if (told_.load(std::memory_order_relaxed) || looked_at_.load(std::memory_order_relaxed) >= kPasses * size()) return;
  looked_at_.fetch_add(1, std::memory_order_relaxed);
  const std::optional<int64_t> at = PlaceOfNonFinite(values);
  if (!at || told_.exchange(true)) return;
  LogWarning(StrCat(NameOf(i), " holds ", values[static_cast<size_t>(*at)], " (value ", *at,
                    " of it; this is said once for each source)"));
}

void LmdbSource::Keep(int64_t i, const Image& picture, float label) const {
  if (cache_) cache_->Offer(i, picture, label);
}

std::optional<int64_t> LmdbSource::ClassOf(int64_t i) const { return ParseDatum(reader_->unchecked_value(i)).label; }

std::vector<ListedImage> ReadImageList(const fs::path& path) {
  std::vector<ListedImage> images;
  for (const ListTextLine& line : ListTextLines(ReadListText(path))) images.push_back(ListedImageOf(line, path));
  if (images.empty()) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": the image list is empty"));
  TellRepeated(images, path);
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
    ListedImage image{.path = line.words[0], .line = line.number};
    for (const std::string& word : std::span(line.words).subspan(1)) {
      const std::optional<float> value = FloatOfText(word);
      if (!value) fail(StrCat("expected a number as label that a float holds, found \"", Printable(word), "\""));
      image.labels.push_back(*value);
    }
    images.push_back(std::move(image));
  }
  TellRepeated(images, path);
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
