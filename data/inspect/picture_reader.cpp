// Runs the layer's own transform with its random fields taken out, on a picture in place of a record, so that inference
// and test agree bit for bit.
#include "data/inspect/picture_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/image/picture_limits.h"
#include "data/import/record_maker.h"
#include "data/layer_fields.h"
#include "data/records/annotated_record.h"
#include "data/records/datum_view.h"
#include "data/records/lmdb_file.h"
#include "data/records/sample_record.h"
#include "data/transform/canvas.h"
#include "proto/text/places.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kReaderSeed = 1;  // of transforms that draw nothing

bool ReadsBoxes(const LayerParameter& layer) {
  return DataRowOf(layer).database == RecordKind::kAnnotated || layer.transform_param().resize_param_size() > 0;
}

bool ReadsSamples(const LayerParameter& layer) {
  return DataRowOf(layer).database == RecordKind::kSample || layer.record_data_param().canvas_height() > 0 ||
         layer.record_data_param().height() > 0;
}

bool IsOfDatabase(const LayerParameter& layer) { return DataRowOf(layer).database.has_value(); }

// A database's records were resized, by areas, when they were imported; boxes stay with pictures as they are.
bool IsOfResizedRecords(const LayerParameter& layer) {
  return IsOfDatabase(layer) && DataRowOf(layer).database != RecordKind::kAnnotated;
}

// Returns the layer's fields without those by which a training draws at random, and with the colours that the sample's
// channels ask for. Errors: kConfig where the layer's fields say otherwise.
TransformationParameter PlainFieldsOf(const LayerParameter& layer, int64_t channels) {
  TransformationParameter fields = PictureFieldsOf(layer);
  fields.clear_mirror();
  fields.clear_mixing();
  fields.clear_augment();
  fields.clear_rand_resized_crop();
  fields.clear_distort_param();
  fields.clear_expand_param();
  if (fields.resize_param_size() > 0 && fields.resize_param(0).interp_mode_size() > 1) {
    const ResizeParameter::Interp_mode first = fields.resize_param(0).interp_mode(0);
    fields.mutable_resize_param(0)->clear_interp_mode();
    fields.mutable_resize_param(0)->add_interp_mode(first);
  }
  if (channels == 1 || channels == 3) {
    const bool is_refused = channels == 3 ? fields.force_gray() : fields.force_color();
    if (is_refused) {
      const char* const field = channels == 3 ? "transform_param.force_gray" : "transform_param.force_color";
      throw ErrorAt(layer, field,
                    StrCat("layer \"", layer.name(), "\": ", field, " makes pictures of ", channels == 3 ? 1 : 3,
                           " channels, and the net's input has ", channels));
    }
    fields.set_force_gray(channels == 1);
    fields.set_force_color(channels == 3);
  }
  return fields;
}

// The upright size of one record's picture.
ImageSize PictureSizeOf(std::string_view wire, const LayerParameter& layer, ImageDecoder& decoder) {
  Record picture;
  RecordScratch scratch;
  SampleRecord sample;
  AnnotatedRecord annotated;
  if (DataRowOf(layer).database == RecordKind::kSample) {
    if (!sample.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
      throw Error(ErrorKind::kBadData, "no SampleRecord");
    }
    picture = PictureOf(sample);
  } else if (DataRowOf(layer).database == RecordKind::kAnnotated) {
    ParseAnnotated(wire, annotated);
    picture = ReadDatum(annotated.datum, scratch);
  } else {
    picture = ReadDatum(wire, scratch);
  }
  return picture.file.empty() ? SizeOf(picture.pixels) : decoder.Open(picture.file, {});
}

// Lists have is_color.
bool ForcesChannels(const LayerParameter& layer) {
  const TransformationParameter fields = PictureFieldsOf(layer);
  return (DataRowOf(layer).open == nullptr || IsOfDatabase(layer)) && (fields.force_color() || fields.force_gray());
}

bool NeedsRecordChannels(const LayerParameter& layer) {
  return IsOfDatabase(layer) && !layer.data_param().source().empty() && ForcesChannels(layer);
}

// Reads the sides of the pictures that the import of a database has noted; leaves them alone where there is no such
// note.
void ReadSides(const fs::path& database, StoredPictures& stored) {
  constexpr int64_t kLimitBytes = int64_t{1} << 20U;
  std::error_code code;
  const fs::path file = database / "import.json";
  if (!fs::is_regular_file(file, code) || fs::file_size(file, code) > kLimitBytes) return;
  const auto json = nlohmann::json::parse(ReadFile(file, kLimitBytes), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  const auto sides = json.find("sides");
  if (sides == json.end()) {
    // Records that were made of records had been resized before, if they were.
    const auto text = [&](const char* name) {
      return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
    };
    const std::string source = text("format") == "moka-import" ? text("source") : std::string();
    stored.are_sides_known = !source.empty() && !source.starts_with("lmdb ") && !source.starts_with("leveldb ");
    return;
  }
  const auto is_side = [](const nlohmann::json& side) {
    return side.is_number_integer() && side.get<int64_t>() >= 0 && side.get<int64_t>() <= kMostPictureSide;
  };
  if (!sides->is_array() || (sides->size() != 2 && sides->size() != 3)) return;
  if (!std::ranges::all_of(*sides, is_side)) return;
  stored.min_side = (*sides)[0].get<int64_t>();
  stored.max_side = (*sides)[1].get<int64_t>();
  if (sides->size() == 3) stored.short_side = (*sides)[2].get<int64_t>();
  stored.are_sides_known = true;
}

// Errors: kConfig for a sample [C,H,W] that is no picture's, or not of the channels that the layer forces.
void CheckChannelsOf(const LayerParameter& layer, const Shape& sample) {
  if (sample[0] != 1 && sample[0] != 3) {
    throw ErrorAt(layer, {},
                  StrCat("the net's input [C,H,W] is ", sample.ToString(), ", and pictures have 1 or 3 channels"),
                  sample[2] == 1 || sample[2] == 3 ? "channels stand before height and width here" : "");
  }
  if (!ForcesChannels(layer) || PictureFieldsOf(layer).force_gray() == (sample[0] == 1)) return;
  const std::string_view field = sample[0] == 3 ? "transform_param.force_gray" : "transform_param.force_color";
  throw ErrorAt(layer, field,
                StrCat(field, " makes pictures of ", 4 - sample[0], sample[0] == 3 ? " channel" : " channels",
                       ", and the net's input is ", sample.ToString()));
}

}  // namespace

bool NeedsRecordSize(const LayerParameter& layer) {
  if (!IsOfResizedRecords(layer) || layer.data_param().source().empty()) return false;
  const TransformationParameter fields = PictureFieldsOf(layer);
  const bool is_cut = fields.crop_size() > 0 || fields.crop_h() > 0 || fields.crop_height() > 0;
  return is_cut && !fields.has_mean_file() && fields.resize_short() == 0 && fields.resize_param_size() == 0 &&
         !layer.has_record_data_param() && ListedSizeOf(layer).first == 0;
}

bool HasRecords(const LayerParameter& layer) { return IsOfDatabase(layer) && !layer.data_param().source().empty(); }

bool NeedsRecords(const LayerParameter& layer) { return NeedsRecordSize(layer) || NeedsRecordChannels(layer); }

std::optional<StoredPictures> StoredPicturesOf(const LayerParameter& layer, const fs::path& base_folder) {
  constexpr int64_t kLookedAt = 16;
  const fs::path source = base_folder / layer.data_param().source();
  std::error_code code;
  if (!fs::exists(source, code)) return {};
  const LmdbReader reader(source, {LmdbReader::Access::kSequential, LmdbReader::Checks::kNoRead});
  ImageDecoder decoder;
  std::optional<StoredPictures> stored;
  const int64_t step = std::max<int64_t>(1, reader.size() / kLookedAt);
  for (int64_t i = 0; i < reader.size(); i += step) {
    const ImageSize found = PictureSizeOf(reader.value(i), layer, decoder);
    if (!stored) stored = {found};
    if (stored->channels != found.channels) stored->channels = 0;
    if (stored->height != found.height || stored->width != found.width) stored->height = stored->width = 0;
  }
  if (stored) ReadSides(source, *stored);
  return stored;
}

std::optional<StoredPictures> NeededPicturesOf(const LayerParameter& layer, const fs::path& base_folder) {
  if (NeedsRecords(layer)) return StoredPicturesOf(layer, base_folder);
  StoredPictures stored;
  if (HasRecords(layer)) ReadSides(base_folder / layer.data_param().source(), stored);
  return stored.HasSides() ? std::optional(stored) : std::nullopt;
}

PictureReader::PictureReader(const LayerParameter& layer, const Shape& sample, const fs::path& base_folder, Order order,
                             const std::optional<StoredPictures>& stored)
    : sample_(sample), order_(order) {
  Require(sample.rank() == 3, "PictureReader: a sample [C,H,W]");
  CheckChannelsOf(layer, sample);
  LayerParameter whole = layer;
  TransformationParameter& fields = *whole.mutable_transform_param();
  fields = PlainFieldsOf(layer, sample[0]);
  const CropSize crop = CropOf(whole);
  if (fields.crop_height() > 0) {
    fields.clear_crop_height();
    fields.clear_crop_width();
    fields.set_crop_h(static_cast<uint32_t>(crop.height));
    fields.set_crop_w(static_cast<uint32_t>(crop.width));
  }
  crop_height_ = crop.height;
  crop_width_ = crop.width;
  pad_ = fields.pad();
  if (ReadsSamples(layer)) {
    records_.emplace(whole, TEST, kReaderSeed, RecordTransform::Wanted{});
  } else if (ReadsBoxes(layer)) {
    AnnotatedDataParameter sampling = layer.annotated_data_param();
    sampling.clear_batch_sampler();
    sampling.clear_yolo_data_jitter();
    sampling.clear_yolo_data_type();
    boxes_.emplace(fields, sampling, TEST, kReaderSeed);
  } else {
    try {
      plain_.emplace(fields, TEST, kReaderSeed, base_folder);
    } catch (Error& error) {
      error.SetPlace(PlaceOf(layer, fields.has_mean_file() ? "transform_param.mean_file" : "transform_param"));
      throw;
    }
  }
  std::optional<StoredPictures> records = stored;
  if (!records) records = NeededPicturesOf(layer, base_folder);
  if (records && ForcesChannels(layer)) stored_channels_ = OtherChannels(*records);
  sizing_ = SizingOf(whole, records.value_or(StoredPictures{}));
  if (records && records->HasSides() && sizing_.height == 0) {
    sides_ = *records;
    sizing_.interpolation = Interpolation::kArea;
  }
  CheckSample(whole);
}

// Returns the other number of channels that records have. Where records differ, a grey sample is also made of those in
// colour.
int64_t PictureReader::OtherChannels(const ImageSize& stored) const {
  if (stored.channels == 0) return sample_[0] == 1 ? 3 : 0;
  const bool is_picture = stored.channels == 1 || stored.channels == 3;
  return is_picture && stored.channels != sample_[0] ? stored.channels : 0;
}

ImageSize PictureReader::LeastSize() const {
  const bool is_cut = crop_height_ > 0;
  return {sample_[0], std::max<int64_t>(1, is_cut ? crop_height_ : sample_[1] - 2 * pad_),
          std::max<int64_t>(1, is_cut ? crop_width_ : sample_[2] - 2 * pad_)};
}

Shape PictureReader::ShapeOf(const ImageSize& size) const {
  if (plain_) return plain_->OutputShape(size);
  if (records_) return records_->ShapeOf(size);
  return boxes_->OutputShape(Image{size.width, size.height, size.channels});
}

void PictureReader::CheckSample(const LayerParameter& layer) const {
  const ImageSize size = sizing_.height > 0 ? ImageSize{sample_[0], sizing_.height, sizing_.width} : LeastSize();
  if (Fits(size)) return;
  const TransformationParameter& fields = layer.transform_param();
  if (plain_ && plain_->mean_shape().rank() > 0) {
    throw ErrorAt(layer, "transform_param.mean_file",
                  StrCat("the mean image ", Printable(fields.mean_file()), " is ", plain_->mean_shape().ToString(),
                         ", which does not go with the net's input ", sample_.ToString()));
  }
  std::string found;
  try {
    found = StrCat("makes ", ShapeOf(size).ToString(), " of a picture");
  } catch (const Error& error) {
    found = StrCat("makes none of a picture (", error.text(), ")");
  }
  throw ErrorAt(layer, {},
                StrCat("layer \"", layer.name(), "\" ", found, ", and the net's input is ", sample_.ToString()),
                "its sizes are those of transform_param (crop_size, pad, resize_short) and of the pictures it reads");
}

PictureSizing PictureReader::SizingOf(const LayerParameter& layer, const StoredPictures& stored) const {
  const std::pair<int64_t, int64_t> listed = ListedSizeOf(layer);
  if (listed.first > 0) {
    return {listed.first, listed.second, IsOfResizedRecords(layer) ? Interpolation::kArea : Interpolation::kLinear};
  }
  const TransformationParameter& fields = layer.transform_param();
  if (boxes_ || fields.resize_short() > 0 || layer.record_data_param().height() > 0 ||
      layer.record_data_param().canvas_height() > 0) {
    return {};
  }
  if (DataRowOf(layer).warps_windows) return {sample_[1], sample_[2], Interpolation::kLinear};
  if (plain_ && plain_->mean_shape().rank() == 3) {
    return {plain_->mean_shape()[1], plain_->mean_shape()[2], Interpolation::kArea};
  }
  if (crop_height_ == 0 || stored.height == 0 || stored.HasSides() || !NeedsRecordSize(layer)) return {};
  return {stored.height, stored.width, Interpolation::kArea};
}

void PictureReader::TakeChannels(Image& image) const {
  if (stored_channels_ == 1) ConvertChannels(1, image);
  if (image.channels != sample_[0] && (sample_[0] == 1 || sample_[0] == 3)) ConvertChannels(sample_[0], image);
  if (order_ != Order::kRgb || image.channels != 3) return;
  for (size_t i = 0; i + 2 < image.pixels.size(); i += 3) std::swap(image.pixels[i], image.pixels[i + 2]);
}

bool PictureReader::Fits(const ImageSize& size) const {
  try {
    return ShapeOf(size) == sample_;
  } catch (const Error&) {
    return false;  // too small for the crop: it is resized
  }
}

std::pair<int64_t, int64_t> PictureReader::ResizedOf(const Image& image) const {
  if (sizing_.height > 0) return {sizing_.height, sizing_.width};
  return SizeWithin(image.height, image.width, sides_.min_side, sides_.max_side, sides_.short_side);
}

void PictureReader::Resize(int64_t height, int64_t width, Interpolation interpolation, Image& image) {
  if (image.height == height && image.width == width) return;
  ResizeImage(image, width, height, interpolation, sized_);
  std::swap(image, sized_);
}

Image PictureReader::Load(std::string_view file, std::span<float> out) {
  Image image;
  const bool is_gray = sample_[0] == 1 || stored_channels_ == 1;
  const ImageChannels channels = is_gray ? ImageChannels::kGray : ImageChannels::kColor;
  // Records of colours were resized as such; those that keep their size are read as grey.
  const bool may_resize_colors = stored_channels_ == 3 && (sizing_.height > 0 || sides_.HasSides());
  decoder_.Decode(file, {.channels = may_resize_colors ? ImageChannels::kColor : channels}, image);
  const bool keeps_size = ResizedOf(image) == std::pair(image.height, image.width);
  if (may_resize_colors && keeps_size) decoder_.Decode(file, {.channels = channels}, image);
  const ImageSize size{image.channels, image.height, image.width};
  if (order_ == Order::kRgb || sizing_.height > 0 || !keeps_size || boxes_ || image.channels != sample_[0] ||
      !Fits(size)) {
    Put(image, out);
    return image;
  }
  if (records_) {
    record_scratch_.record.Clear();
    record_scratch_.record.set_picture(std::string(file));
    WriteRecord(size, out);
  } else if (plain_->takes_parts()) {
    shown_ = SeenOf(size);
    plain_->ApplyOpened(decoder_.Open(file, {.channels = channels}), decoder_, {0, 0}, clock_, scratch_, out);
  } else {
    Write(image, out);
  }
  return image;
}

void PictureReader::Put(Image image, std::span<float> out) {
  // Records of colours were resized before the layer makes them grey.
  const bool is_resized_first = stored_channels_ == 3;
  if (!is_resized_first) TakeChannels(image);
  const auto [height, width] = ResizedOf(image);
  Resize(height, width, sizing_.interpolation, image);
  if (is_resized_first) TakeChannels(image);
  if (!Fits({image.channels, image.height, image.width})) {
    // No record says how large: the crop is all of the picture, or what the padding leaves of the sample is.
    const ImageSize least = LeastSize();
    Resize(least.height, least.width, Interpolation::kArea, image);
  }
  Write(image, out);
}

void PictureReader::PutAsIs(Image image, std::span<float> out) {
  TakeChannels(image);
  Require(image.height == sample_[1] && image.width == sample_[2], "PictureReader::PutAsIs: the sample's size");
  shown_ = {0, 0, 1, 1};
  // A mean image is of whole records.
  if (plain_ && plain_->mean_shape().rank() == 0) return plain_->Normalize(image, out);
  Write(image, out);
}

void PictureReader::Write(const Image& image, std::span<float> out) {
  shown_ = SeenOf({image.channels, image.height, image.width});
  if (plain_) return plain_->Apply(ViewOf(image), {0, 0}, scratch_, out);
  if (boxes_) {
    box_scratch_.image = image;
    box_scratch_.annotations.clear();
    return boxes_->Apply({0, 0}, box_scratch_, out);
  }
  SampleRecord& record = record_scratch_.record;
  record.Clear();
  record.set_channels(static_cast<uint32_t>(image.channels));
  record.set_height(static_cast<uint32_t>(image.height));
  record.set_width(static_cast<uint32_t>(image.width));
  record.set_picture(PlanarBytes(image));
  WriteRecord({image.channels, image.height, image.width}, out);
}

ImageBox PictureReader::SeenOf(const ImageSize& size) const {
  if (plain_) return plain_->SeenOf(size);
  if (boxes_) return boxes_->SeenOf(size.height, size.width);
  const ResamplePart part = records_->PartOf(size, {0, 0});
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  // The part's own size but for a canvas, of which it fills a corner.
  const double wide = static_cast<double>(sample_[2]) / static_cast<double>(part.width);
  const double high = static_cast<double>(sample_[1]) / static_cast<double>(part.height);
  return {part.box.x / width, part.box.y / height, part.box.width / width * wide, part.box.height / height * high};
}

void PictureReader::WriteRecord(const ImageSize& size, std::span<float> out) {
  shown_ = SeenOf(size);
  records_->Apply({0, 0}, sample_, decoder_, clock_, scratch_, record_scratch_, out);
}

}  // namespace moka
