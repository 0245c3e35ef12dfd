// A file whose size and kind suit the import keeps its bytes, as encoding anew would lose quality; else it is decoded,
// resized and encoded.
#include "data/import/record_maker.h"

#include <algorithm>
#include <cmath>

#include "core/exact_float.h"
#include "core/text.h"
#include "data/image/picture_limits.h"
#include "data/labels/sample_writing.h"
#include "data/layer_fields.h"
#include "data/records/annotated_record.h"
#include "data/records/datum_view.h"
#include "data/records/sample_record.h"

namespace moka {
namespace {

std::string_view DatumIn(std::string_view wire, RecordKind kind) {
  if (kind != RecordKind::kAnnotated) return wire;
  AnnotatedRecord record;
  ParseAnnotated(wire, record);
  return record.datum;
}

}  // namespace

std::pair<int64_t, int64_t> SizeWithin(int64_t height, int64_t width, int64_t least, int64_t most, int64_t short_most) {
  const auto shorter = static_cast<float>(std::min(height, width));
  const auto longer = static_cast<float>(std::max(height, width));
  float scale = 1;
  if (shorter < static_cast<float>(least)) scale = static_cast<float>(least) / shorter;
  if (short_most > 0 && shorter > static_cast<float>(short_most)) scale = static_cast<float>(short_most) / shorter;
  if (most > 0 && std::floor(scale * longer) > static_cast<float>(most)) scale = static_cast<float>(most) / longer;
  const auto side = [&](int64_t pixels) {
    return std::max<int64_t>(1, std::llrint(static_cast<double>(pixels) * static_cast<double>(scale)));
  };
  return {side(height), side(width)};
}

void CheckSizes(const ImportOptions& options) {
  const bool is_as_stored = options.height == 0 && options.width == 0;
  if (!is_as_stored && !IsPictureSize(options.height, options.width)) {
    throw Error(ErrorKind::kUsage, StrCat("cannot resize to height ", options.height, " and width ", options.width,
                                          ", expected both 0 or both 1..", kMostPictureSide, ", at most ",
                                          kMostPicturePixels, " pixels together"));
  }
  if (std::min({options.min_dim, options.max_dim, options.short_side}) < 0 ||
      std::max({options.min_dim, options.max_dim, options.short_side}) > kMostPictureSide) {
    throw Error(ErrorKind::kUsage,
                StrCat("cannot bring sides between ", options.min_dim, " and ", options.max_dim, ", or the shorter to ",
                       options.short_side, ", expected 0..", kMostPictureSide));
  }
}

MadeRecord RecordMaker::Make(const ImportItem& item) {
  MadeRecord made;
  try {
    if (item.record) {
      CheckRecord(item, made);
      return made;
    }
    MakePicture(item, made);
    if (made.bad) return made;
    if (item.describe || item.describe_sample) Describe(item, made);
    if (!made.bad) Serialize(item, made);
  } catch (...) {
    made.failed = std::current_exception();
  }
  made.losses = decoder_.TakeLosses() | scratch_.decoder.TakeLosses();
  return made;
}

void RecordMaker::MakePicture(const ImportItem& item, MadeRecord& made) {
  file_.clear();
  file_format_ = ImageHeader::Format::kUnknown;
  if (item.draw) {
    item.draw(decoded_);
    if (options_.channels != ImageChannels::kAsStored) {
      ConvertChannels(options_.channels == ImageChannels::kColor ? 3 : 1, decoded_);
    }
    return;
  }
  try {
    file_ = item.read();
    decoder_.Decode(file_, {.channels = options_.channels}, decoded_);
    file_format_ = ReadImageHeader(file_).format;
  } catch (const Error& e) {
    made.bad = e;
  }
}

void RecordMaker::Describe(const ImportItem& item, MadeRecord& made) {
  annotated_.Clear();
  sample_.Clear();
  try {
    if (item.describe) item.describe(decoded_, annotated_, made.warnings);
    if (item.describe_sample) item.describe_sample(decoded_, sample_, made.warnings);
  } catch (const Error& e) {
    const bool may_be_bad = item.may_be_misdescribed || item.describe_sample;
    if (!may_be_bad || e.kind() != ErrorKind::kBadData) throw;
    made.bad = e;
  }
}

void RecordMaker::CheckRecord(const ImportItem& item, MadeRecord& made) {
  try {
    made.wire = item.record();
    made.shape = ShapeOfRecord(made.wire, item.kind);
    LoadDatum(DatumIn(made.wire, item.kind), ImageChannels::kAsStored, scratch_);
  } catch (const Error& e) {
    made.bad = e;
  }
}

bool RecordMaker::KeepsBytes() const {
  using Storage = ImportOptions::Storage;
  if (file_format_ == ImageHeader::Format::kUnknown) return false;  // drawn
  if (options_.height > 0 || HasSides(options_)) return false;
  if (!options_.stores_like_caffe) {
    return options_.storage == Storage::kSource && options_.channels == ImageChannels::kAsStored;
  }
  switch (options_.storage) {
    case Storage::kSource: return true;
    case Storage::kJpeg: return file_format_ == ImageHeader::Format::kJpeg;
    case Storage::kPng: return file_format_ == ImageHeader::Format::kPng;
    case Storage::kRaw: return false;
  }
  return false;
}

std::pair<int64_t, int64_t> RecordMaker::SizeFor(const Image& image) const {
  if (!HasSides(options_)) {
    return options_.height > 0 ? std::pair(options_.height, options_.width) : std::pair(image.height, image.width);
  }
  return SizeWithin(image.height, image.width, options_.min_dim, options_.max_dim, options_.short_side);
}

// A file that must be encoded anew stays of its kind; for other kinds than JPEG that is a PNG, which loses nothing.
ImportOptions::Storage RecordMaker::StorageOfPixels() const {
  using Storage = ImportOptions::Storage;
  if (!options_.stores_like_caffe || options_.storage != Storage::kSource) return options_.storage;
  return file_format_ == ImageHeader::Format::kJpeg ? Storage::kJpeg : Storage::kPng;
}

void RecordMaker::StorePixels() {
  const Image* from = &decoded_;
  const auto [height, width] = SizeFor(decoded_);
  if (height != decoded_.height || width != decoded_.width) {
    ResizeImage(decoded_, width, height, Interpolation::kArea, resized_);
    from = &resized_;
  }
  const ImportOptions::Storage storage = StorageOfPixels();
  datum_.set_channels(static_cast<int32_t>(from->channels));
  datum_.set_height(static_cast<int32_t>(from->height));
  datum_.set_width(static_cast<int32_t>(from->width));
  switch (storage) {
    case ImportOptions::Storage::kJpeg: datum_.set_data(EncodeJpeg(*from)); break;
    case ImportOptions::Storage::kPng: datum_.set_data(EncodePng(*from)); break;
    default: datum_.set_data(PlanarBytes(*from));
  }
  datum_.set_encoded(storage == ImportOptions::Storage::kJpeg || storage == ImportOptions::Storage::kPng);
}

void RecordMaker::MovePictureToSample() {
  ResizeMasks({decoded_.width, decoded_.height}, {datum_.width(), datum_.height()}, sample_);
  sample_.set_version(kSampleVersion);
  if (!datum_.encoded()) {
    sample_.set_channels(static_cast<uint32_t>(datum_.channels()));
    sample_.set_height(static_cast<uint32_t>(datum_.height()));
    sample_.set_width(static_cast<uint32_t>(datum_.width()));
  }
  sample_.set_picture(std::move(*datum_.mutable_data()));
}

void RecordMaker::Serialize(const ImportItem& item, MadeRecord& made) {
  datum_.Clear();
  if (!IsExactFloat(item.label)) CheckWhole(item.label, StrCat(item.name, ": the label"), {});
  if (KeepsBytes()) {
    datum_.set_encoded(true);
    datum_.set_data(file_);
    datum_.set_channels(static_cast<int32_t>(decoded_.channels));
    datum_.set_height(static_cast<int32_t>(decoded_.height));
    datum_.set_width(static_cast<int32_t>(decoded_.width));
  } else {
    StorePixels();
  }
  datum_.set_label(item.label);
  bool is_written = false;
  if (item.describe_sample) {
    MovePictureToSample();
    is_written = sample_.SerializeToString(&made.wire);
    if (!is_written) throw Error(ErrorKind::kBadData, StrCat(item.name, ": too large for a record"));
    return;
  }
  made.shape = StrCat(datum_.channels(), "x", datum_.height(), "x", datum_.width());
  if (item.describe) {
    annotated_.mutable_datum()->Swap(&datum_);
    is_written = annotated_.SerializeToString(&made.wire);
  } else {
    is_written = datum_.SerializeToString(&made.wire);
  }
  if (!is_written) throw Error(ErrorKind::kBadData, StrCat(item.name, ": too large for a record"));
}

std::string ShapeOfRecord(std::string_view wire, RecordKind kind) {
  const DatumView datum = ParseDatum(DatumIn(wire, kind));
  return StrCat(datum.channels, "x", datum.height, "x", datum.width);
}

std::string PlanarBytes(const Image& image) {
  const int64_t plane = image.height * image.width;
  std::string bytes(image.pixels.size(), '\0');
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < image.channels; ++c) {
      bytes[static_cast<size_t>(c * plane + i)] =
          static_cast<char>(image.pixels[static_cast<size_t>(i * image.channels + c)]);
    }
  }
  return bytes;
}

Image ImageFromPlanes(std::span<const uint8_t> planes, int64_t channels, int64_t height, int64_t width) {
  Image image;
  image.Resize(width, height, channels);
  Require(planes.size() == image.pixels.size(), "ImageFromPlanes: C*H*W bytes");
  const int64_t plane = height * width;
  for (int64_t i = 0; i < plane * channels; ++i) {
    image.pixels[static_cast<size_t>(i)] = planes[static_cast<size_t>(i % channels * plane + i / channels)];
  }
  return image;
}

}  // namespace moka
