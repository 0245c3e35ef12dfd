#include "data/picture_reader.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "data/canvas.h"
#include "data/datum_view.h"
#include "data/layer_fields.h"
#include "data/lmdb_file.h"
#include "data/record_maker.h"
#include "data/sample_record.h"
#include "proto/places.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kReaderSeed = 1;  // of transforms that draw nothing

bool ReadsBoxes(const LayerParameter& layer) {
  return layer.type() == "AnnotatedData" || layer.transform_param().resize_param_size() > 0;
}

bool ReadsRecords(const LayerParameter& layer) {
  return layer.type() == "RecordData" || layer.record_data_param().canvas_height() > 0 ||
         layer.record_data_param().height() > 0;
}

// Without what a test draws at random, and with what the sample's channels say. Errors: kConfig where the layer's
// fields say otherwise.
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
  if (layer.type() == "RecordData") {
    if (!sample.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
      throw Error(ErrorKind::kBadData, "no SampleRecord");
    }
    picture = PictureOf(sample);
  } else {
    picture = ReadDatum(wire, scratch);
  }
  return picture.file.empty() ? SizeOf(picture.pixels) : decoder.Open(picture.file, {});
}

}  // namespace

bool NeedsRecordSize(const LayerParameter& layer) {
  if ((layer.type() != "Data" && layer.type() != "RecordData") || layer.data_param().source().empty()) return false;
  const TransformationParameter fields = PictureFieldsOf(layer);
  const bool is_cut = fields.crop_size() > 0 || fields.crop_h() > 0 || fields.crop_height() > 0;
  return is_cut && !fields.has_mean_file() && fields.resize_short() == 0 && fields.resize_param_size() == 0 &&
         !layer.has_record_data_param() && ListedSizeOf(layer).first == 0;
}

std::optional<ImageSize> RecordSizeOf(const LayerParameter& layer, const fs::path& base_folder) {
  constexpr int64_t kLookedAt = 16;
  const fs::path source = base_folder / layer.data_param().source();
  std::error_code code;
  if (!fs::exists(source, code)) return {};
  const LmdbReader reader(source, {LmdbReader::Access::kSequential, LmdbReader::Checks::kNoRead});
  ImageDecoder decoder;
  std::optional<ImageSize> size;
  const int64_t step = std::max<int64_t>(1, reader.size() / kLookedAt);
  for (int64_t i = 0; i < reader.size(); i += step) {
    const ImageSize found = PictureSizeOf(reader.value(i), layer, decoder);
    if (size && (size->height != found.height || size->width != found.width)) return {};
    size = found;
  }
  return size;
}

PictureReader::PictureReader(const LayerParameter& layer, const Shape& sample, const fs::path& base_folder, Order order)
    : sample_(sample), order_(order) {
  Require(sample.rank() == 3, "PictureReader: a sample [C,H,W]");
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
  channels_ = sample[0] == 1 ? ImageChannels::kGrey : ImageChannels::kColor;
  if (ReadsRecords(layer)) {
    records_.emplace(whole, TEST, kReaderSeed, RecordTransform::Wanted{});
  } else if (ReadsBoxes(layer)) {
    AnnotatedDataParameter sampling = layer.annotated_data_param();
    sampling.clear_batch_sampler();
    sampling.clear_yolo_data_jitter();
    sampling.clear_yolo_data_type();
    boxes_.emplace(fields, sampling, TEST, kReaderSeed);
  } else {
    plain_.emplace(fields, TEST, kReaderSeed, base_folder);
  }
  sizing_ = SizingOf(whole, base_folder);
}

PictureSizing PictureReader::SizingOf(const LayerParameter& layer, const fs::path& base_folder) const {
  const std::pair<int64_t, int64_t> listed = ListedSizeOf(layer);
  // A database's records were resized when they were imported, by areas.
  const bool is_imported = layer.type() == "Data" || layer.type() == "RecordData";
  if (listed.first > 0) {
    return {listed.first, listed.second, is_imported ? Interpolation::kArea : Interpolation::kLinear};
  }
  const TransformationParameter& fields = layer.transform_param();
  if (boxes_ || fields.resize_short() > 0 || layer.record_data_param().height() > 0 ||
      layer.record_data_param().canvas_height() > 0) {
    return {};
  }
  // A windows' layer warps each to the crop.
  if (layer.type() == "WindowData") return {sample_[1], sample_[2], Interpolation::kLinear};
  if (plain_ && plain_->mean_shape().rank() == 3) {
    return {plain_->mean_shape()[1], plain_->mean_shape()[2], Interpolation::kArea};
  }
  if (crop_height_ == 0 || !NeedsRecordSize(layer)) return {};
  const std::optional<ImageSize> stored = RecordSizeOf(layer, base_folder);
  if (!stored) return {};
  return {stored->height, stored->width, Interpolation::kArea};
}

void PictureReader::TakeChannels(Image& image) const {
  if (image.channels != sample_[0] && (sample_[0] == 1 || sample_[0] == 3)) ConvertChannels(sample_[0], image);
  if (order_ != Order::kRgb || image.channels != 3) return;
  for (size_t i = 0; i + 2 < image.pixels.size(); i += 3) std::swap(image.pixels[i], image.pixels[i + 2]);
}

bool PictureReader::Fits(const ImageSize& size) const {
  try {
    if (plain_) return plain_->OutputShape(size) == sample_;
    if (records_) return records_->ShapeOf(size) == sample_;
    Image image{size.width, size.height, size.channels};
    return boxes_->OutputShape(image) == sample_;
  } catch (const Error&) {
    return false;  // too small for the crop: it is resized
  }
}

void PictureReader::Resize(int64_t height, int64_t width, Interpolation interpolation, Image& image) {
  if (image.height == height && image.width == width) return;
  ResizeImage(image, width, height, interpolation, sized_);
  std::swap(image, sized_);
}

Image PictureReader::Load(std::string_view file, std::span<float> out) {
  Image image;
  decoder_.Decode(file, {.channels = channels_}, image);
  const ImageSize size{image.channels, image.height, image.width};
  if (order_ == Order::kRgb || sizing_.height > 0 || boxes_ || !Fits(size)) {
    Put(image, out);
    return image;
  }
  if (records_) {
    record_scratch_.record.Clear();
    record_scratch_.record.set_picture(std::string(file));
    WriteRecord(size, out);
  } else if (plain_->takes_parts()) {
    shown_ = SeenOf(size);
    plain_->ApplyOpened(decoder_.Open(file, {.channels = channels_}), decoder_, {0, 0}, clock_, scratch_, out);
  } else {
    Write(image, out);
  }
  return image;
}

void PictureReader::Put(Image image, std::span<float> out) {
  TakeChannels(image);
  if (sizing_.height > 0) Resize(sizing_.height, sizing_.width, sizing_.interpolation, image);
  if (!Fits({image.channels, image.height, image.width})) {
    // No record says how large: the crop is all of the picture, or what the padding leaves of the sample is.
    const bool is_cut = crop_height_ > 0;
    const int64_t height = std::max<int64_t>(1, is_cut ? crop_height_ : sample_[1] - 2 * pad_);
    const int64_t width = std::max<int64_t>(1, is_cut ? crop_width_ : sample_[2] - 2 * pad_);
    Resize(height, width, Interpolation::kArea, image);
  }
  Write(image, out);
}

void PictureReader::PutAsIs(Image image, std::span<float> out) {
  TakeChannels(image);
  Require(image.height == sample_[1] && image.width == sample_[2], "PictureReader::PutAsIs: the sample's size");
  shown_ = {0, 0, 1, 1};
  // A mean image is of whole records.
  if (plain_ && plain_->mean_shape().rank() == 0) return plain_->Normalise(image, out);
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
