// The whole of transform_param is one affine write: resampling, mean and scale are folded into factors and summands a
// channel, and pixels go from bytes to the sample's floats without a picture in between where that is possible.
#include "data/transform/transform.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "data/image/cut.h"
#include "data/image/picture_limits.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSide = int64_t{1} << 20U;

Error Fault(std::string_view field, const std::string& text) {
  return {ErrorKind::kConfig, StrCat("transform_param.", field, ": ", text)};
}

std::string SizeText(int64_t height, int64_t width) { return StrCat(height, "x", width, " (height x width)"); }

// The other side's length when the short side becomes `target`, rounded to the nearest.
int64_t Scaled(int64_t side, int64_t short_side, int64_t target) {
  return std::max<int64_t>(1, ((Size(side) * target * 2 + short_side) / (Size(short_side) * 2)).value());
}

float ValueOf(const google::protobuf::RepeatedField<float>& values, int64_t channel, float none) {
  if (values.empty()) return none;
  return values.size() == 1 ? values[0] : values[static_cast<int>(channel)];
}

void CheckPicture(const PixelView& pixels) {
  if (pixels.channels == 1 || pixels.channels == 3) return;
  throw Error(ErrorKind::kBadData, "only 8-bit records of 1 or 3 channels can be resized and then padded or changed");
}

// Returns the box with the pixels around it that a resized pixel looks at: a step of so many pixels of the picture on
// each side.
ImageBox Grown(const ImageBox& box, double step_x, double step_y, const ImageSize& size) {
  const double x = std::max(0.0, std::floor(box.x - std::max(step_x, 1.0)));
  const double y = std::max(0.0, std::floor(box.y - std::max(step_y, 1.0)));
  const double right = std::min(static_cast<double>(size.width), std::ceil(box.x + box.width + std::max(step_x, 1.0)));
  const double bottom =
      std::min(static_cast<double>(size.height), std::ceil(box.y + box.height + std::max(step_y, 1.0)));
  return {x, y, right - x, bottom - y};
}

}  // namespace

std::string CropFault(const TransformationParameter& param, int64_t height, int64_t width, int64_t of_height,
                      int64_t of_width) {
  return StrCat("transform_param.", param.crop_size() > 0 ? "crop_size" : "crop_h", ": a crop of ",
                SizeText(height, width), " does not fit an image of ", SizeText(of_height, of_width));
}

Transform::Transform(const TransformationParameter& param, Phase phase, uint64_t seed, const fs::path& base_folder)
    : param_(param), phase_(phase), seed_(seed), pad_(param.pad()), augmenter_(param, phase, seed) {
  CheckFields();
  crop_height_ = param.crop_size() > 0 ? param.crop_size() : param.crop_h();
  crop_width_ = param.crop_size() > 0 ? param.crop_size() : param.crop_w();
  if (param.force_color()) channels_ = ImageChannels::kColor;
  if (param.force_gray()) channels_ = ImageChannels::kGray;
  if (param.has_mean_file()) ReadMeanImage(base_folder / param.mean_file(), mean_shape_, mean_image_);
}

void Transform::CheckFields() const {
  const TransformationParameter& p = param_;
  if (p.force_color() && p.force_gray()) throw Fault("force_gray", "force_color is set too; keep one");
  if (p.has_mean_file() && p.mean_value_size() > 0) throw Fault("mean_value", "mean_file is set too; keep one");
  if (p.crop_size() > 0 && (p.crop_h() > 0 || p.crop_w() > 0)) throw Fault("crop_size", "crop_h or crop_w is set too");
  if ((p.crop_h() > 0) != (p.crop_w() > 0)) throw Fault("crop_h", "crop_h and crop_w must be set together");
  if (p.has_mean_file() && (p.pad() > 0 || p.has_rand_resized_crop() || p.augment_size() > 0)) {
    throw Fault("mean_file", "a mean image does not fit pad, rand_resized_crop or augment; use mean_value");
  }
  const bool crops = p.crop_size() > 0 || p.crop_h() > 0;
  if (p.has_rand_resized_crop() && !crops) throw Fault("rand_resized_crop", "needs crop_size, or crop_h and crop_w");
  if (p.has_rand_resized_crop() && p.pad() > 0) throw Fault("pad", "does not go with rand_resized_crop");
  const std::pair<std::string_view, int64_t> sides[] = {
      {"crop_size", p.crop_size()}, {"crop_h", p.crop_h()}, {"crop_w", p.crop_w()}, {"pad", p.pad()}};
  for (const auto& [field, side] : sides) {
    if (side > kMaxSide) throw Fault(field, StrCat(side, " pixels, at most ", kMaxSide, " are possible"));
  }
  if (p.resize_short() > kMostPictureSide) {
    throw Fault("resize_short", StrCat(p.resize_short(), " pixels, at most ", kMostPictureSide, " are possible"));
  }
  if (!std::isfinite(p.scale())) throw Fault("scale", StrCat(p.scale(), " is not a finite number"));
  for (const float mean : p.mean_value()) {
    if (!std::isfinite(mean)) throw Fault("mean_value", StrCat(mean, " is not a finite number"));
  }
  for (const float value : p.std_value()) {
    if (!std::isfinite(value) || value <= 0) throw Fault("std_value", StrCat(value, " is not a positive number"));
  }
  const RandomResizedCrop& r = p.rand_resized_crop();
  if (!(r.scale_min() > 0 && r.scale_min() <= r.scale_max() && r.scale_max() <= 1)) {
    throw Fault("rand_resized_crop", StrCat("scale_min ", r.scale_min(), " and scale_max ", r.scale_max(),
                                            ", expected 0 < scale_min <= scale_max <= 1"));
  }
  if (!(r.ratio_min() > 0 && r.ratio_min() <= r.ratio_max() && std::isfinite(r.ratio_max()))) {
    throw Fault("rand_resized_crop", StrCat("ratio_min ", r.ratio_min(), " and ratio_max ", r.ratio_max(),
                                            ", expected 0 < ratio_min <= ratio_max"));
  }
}

bool IsMirrored(uint64_t seed, const SampleId& id, uint64_t position) {
  return (RandomStream(seed, StreamOf(id), position).Bits() & 1U) != 0;
}

void CheckSampleShape(const Shape& found, const Shape& expected, std::string_view size_fields) {
  if (found == expected) return;
  const bool is_of_size = found.Erased(0) == expected.Erased(0);
  throw Error(ErrorKind::kBadData, {},
              StrCat("its sample is ", found.ToString(), ", the first record's was ", expected.ToString()),
              StrCat("all samples of a layer have one shape: set ",
                     is_of_size ? "transform_param.force_color or force_gray" : size_fields));
}

void ReadMeanImage(const fs::path& path, Shape& shape, std::vector<float>& values) {
  NamedBlob blob;
  try {
    blob = ReadBlobProtoFile(path);
  } catch (const Error& error) {
    // The error's place is to be the layer's: the file goes into the text.
    if (error.place().file.empty()) throw;
    throw Error(error.kind(), {}, StrCat(error.place().file, ": ", error.text()), error.hint());
  }
  const bool batch_of_one = (blob.shape.rank() == 4 || blob.shape.rank() == 5) && blob.shape[0] == 1;
  if (blob.shape.rank() != 3 && !batch_of_one) {
    throw Error(ErrorKind::kBadData,
                StrCat(path.string(), ": a mean image has shape [1,C,H,W], found ", blob.shape.ToString(),
                       blob.shape.rank() == 1 ? "; mean_value takes a number a channel" : ""));
  }
  shape = batch_of_one ? blob.shape.Erased(0) : blob.shape;
  values = std::move(blob.values);
}

void Transform::CheckChannels(const ImageSize& size) const {
  const auto check = [&](std::string_view field, int count) {
    if (count > 1 && count != size.channels) {
      throw Error(ErrorKind::kBadData, StrCat("transform_param.", field, " has ", count, " values, the record has ",
                                              size.channels, " channels; give one value or one a channel",
                                              count == 3 && size.channels == 1 ? ", or set force_color" : ""));
    }
  };
  check("mean_value", param_.mean_value_size());
  check("std_value", param_.std_value_size());
}

float Transform::Mean(int64_t channel) const { return ValueOf(param_.mean_value(), channel, 0.0F); }

float Transform::Factor(int64_t channel) const {
  return param_.std_value().empty() ? param_.scale() : param_.scale() / ValueOf(param_.std_value(), channel, 1.0F);
}

ImageSize Transform::ResizedShort(const ImageSize& size) const {
  if (param_.resize_short() == 0) return size;
  const int64_t short_side = std::min(size.height, size.width);
  return {size.channels, Scaled(size.height, short_side, param_.resize_short()),
          Scaled(size.width, short_side, param_.resize_short())};
}

Shape Transform::OutputShape(const ImageSize& size) const {
  if (size.channels <= 0 || size.height <= 0 || size.width <= 0) {
    throw Error(ErrorKind::kBadData, StrCat("the record has no pixels (", size.channels, " channels of ",
                                            SizeText(size.height, size.width), ")"));
  }
  CheckChannels(size);
  if (resizes_at_random()) return {size.channels, crop_height_, crop_width_};
  auto [channels, height, width] = ResizedShort(size);
  if (param_.resize_short() > 0 && !IsPictureSize(height, width)) {
    throw Error(ErrorKind::kBadData,
                StrCat("transform_param.resize_short would make the image ", SizeText(height, width)));
  }
  if (mean_shape_.rank() > 0 && mean_shape_ != Shape{channels, height, width}) {
    throw Error(ErrorKind::kBadData,
                StrCat("transform_param.mean_file: the mean image has shape ", mean_shape_.ToString(), ", the record ",
                       Shape{channels, height, width}.ToString()));
  }
  height += 2 * pad_;
  width += 2 * pad_;
  if (crop_height_ > height || crop_width_ > width) {
    throw Error(ErrorKind::kBadData, CropFault(param_, crop_height_, crop_width_, height, width));
  }
  return {channels, crop_height_ > 0 ? crop_height_ : height, crop_width_ > 0 ? crop_width_ : width};
}

// Ten tries for a window of a random share of the area and a random aspect, then the largest centred window whose
// aspect is allowed (Szegedy et al., "Going deeper with convolutions", 2015, section 6, as later made precise by
// torchvision's RandomResizedCrop).
ImageWindow Transform::RandomWindow(const ImageSize& size, const SampleId& id) const {
  const RandomResizedCrop& r = param_.rand_resized_crop();
  RandomStream random(seed_, StreamOf(id));
  const auto width = static_cast<double>(size.width);
  const auto height = static_cast<double>(size.height);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double area = width * height * random.Uniform(r.scale_min(), r.scale_max());
    const double aspect = std::exp(random.Uniform(std::log(r.ratio_min()), std::log(r.ratio_max())));
    const auto w = static_cast<int64_t>(std::llround(std::sqrt(area * aspect)));
    const auto h = static_cast<int64_t>(std::llround(std::sqrt(area / aspect)));
    if (w < 1 || h < 1 || w > size.width || h > size.height) continue;
    const auto y = static_cast<int64_t>(random.Uniform() * static_cast<double>(size.height - h + 1));
    const auto x = static_cast<int64_t>(random.Uniform() * static_cast<double>(size.width - w + 1));
    return {x, y, w, h};
  }
  ImageWindow window{0, 0, size.width, size.height};
  const double aspect = std::clamp(width / height, double{r.ratio_min()}, double{r.ratio_max()});
  if (width / height < aspect) window.height = std::clamp<int64_t>(std::llround(width / aspect), 1, size.height);
  if (width / height > aspect) window.width = std::clamp<int64_t>(std::llround(height * aspect), 1, size.width);
  window.x = (size.width - window.width) / 2;
  window.y = (size.height - window.height) / 2;
  return window;
}

Transform::Place Transform::PlaceOf(const ImageSize& size, const SampleId& id) const {
  if (crop_height_ == 0) return {};
  const int64_t free_y = size.height + 2 * pad_ - crop_height_;
  const int64_t free_x = size.width + 2 * pad_ - crop_width_;
  if (phase_ != TRAIN) return {free_y / 2, free_x / 2};
  RandomStream random(seed_, StreamOf(id));
  const auto y = static_cast<int64_t>(random.Below(static_cast<uint64_t>(free_y + 1)));
  return {y, static_cast<int64_t>(random.Below(static_cast<uint64_t>(free_x + 1)))};
}

std::optional<ResamplePart> Transform::PartOf(const ImageSize& size, const SampleId& id) const {
  if (resizes_at_random()) {
    const ImageBox box = BoxOf(RandomWindow(size, id));
    return ResamplePart{box, box, crop_height_, crop_width_};
  }
  // Padding and a mean image belong to the resized picture.
  if (pad_ > 0 || mean_shape_.rank() > 0) return {};
  const ImageSize resized = ResizedShort(size);
  const Place place = PlaceOf(resized, id);
  const int64_t height = crop_height_ > 0 ? crop_height_ : resized.height;
  const int64_t width = crop_width_ > 0 ? crop_width_ : resized.width;
  const double step_x = static_cast<double>(size.width) / static_cast<double>(resized.width);
  const double step_y = static_cast<double>(size.height) / static_cast<double>(resized.height);
  const ImageBox box{static_cast<double>(place.x) * step_x, static_cast<double>(place.y) * step_y,
                     static_cast<double>(width) * step_x, static_cast<double>(height) * step_y};
  return ResamplePart{box, Grown(box, step_x, step_y, size), height, width};
}

ImageBox Transform::SeenOf(const ImageSize& size) const {
  const ImageSize resized = ResizedShort(size);
  const Place place = PlaceOf(resized, {0, 0});
  const auto width = static_cast<double>(resized.width);
  const auto height = static_cast<double>(resized.height);
  return {static_cast<double>(place.x - pad_) / width, static_cast<double>(place.y - pad_) / height,
          static_cast<double>(crop_width_ > 0 ? crop_width_ : resized.width + 2 * pad_) / width,
          static_cast<double>(crop_height_ > 0 ? crop_height_ : resized.height + 2 * pad_) / height};
}

void Transform::WriteResampled(const PixelView& pixels, const ResamplePart& part, const SampleId& id,
                               TransformScratch& scratch, std::span<float> out) const {
  if (augmenter_.changes_pictures()) {
    CheckPicture(pixels);
    ResampleToImage(pixels, part, scratch.resample, scratch.resized);
    return WriteChanged(ViewOf(scratch.resized), {0, 0, part.width, part.height}, id, scratch, out);
  }
  scratch.factors.clear();
  scratch.summands.clear();
  for (int64_t c = 0; c < pixels.channels; ++c) {
    scratch.factors.push_back(Factor(c));
    scratch.summands.push_back(-Mean(c) * Factor(c));
  }
  ResampleToPlanes(pixels, part,
                   {.factors = scratch.factors.data(),
                    .summands = scratch.summands.data(),
                    .mirror = mirrors(id),
                    .planes = out.data()},
                   scratch.resample);
}

// One channel plane after another, rows in order; source columns are kStep apart (0: pixels.channels).
template <class T, int kStep>
void Transform::Write(const T* source, const PixelView& pixels, const Shape& shape, const Place& place, bool mirror,
                      float* out) const {
  const bool planar = pixels.order == PixelView::Order::kPlanar;
  const int64_t step = kStep > 0 ? kStep : pixels.channels;
  const int64_t row_step = pixels.width * (planar ? 1 : pixels.channels);
  const int64_t channel_step = planar ? pixels.height * pixels.width : 1;
  const int64_t height = shape[1];
  const int64_t width = shape[2];
  const int64_t first = std::clamp<int64_t>(pad_ - place.x, 0, width);  // columns [first, last) lie in the image
  const int64_t last = std::clamp<int64_t>(pixels.width + pad_ - place.x, first, width);
  for (int64_t c = 0; c < shape[0]; ++c) {
    const float mean = Mean(c);
    const float factor = Factor(c);
    const float padding = (0.0F - mean) * factor;
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t source_y = y + place.y - pad_;
      if (source_y < 0 || source_y >= pixels.height) {
        std::fill_n(out, width, padding);
        continue;
      }
      std::fill_n(out, first, padding);
      std::fill(out + last, out + width, padding);
      const int64_t source_x = first + place.x - pad_;
      const T* row = source + c * channel_step + source_y * row_step + source_x * step;
      if (mean_image_.empty()) {
        for (int64_t x = 0; x < last - first; ++x) out[first + x] = (static_cast<float>(row[x * step]) - mean) * factor;
      } else {
        const float* means = mean_image_.data() + (c * pixels.height + source_y) * pixels.width + source_x;
        for (int64_t x = 0; x < last - first; ++x)
          out[first + x] = (static_cast<float>(row[x * step]) - means[x]) * factor;
      }
      if (mirror) std::reverse(out, out + width);
    }
  }
}

void Transform::WriteAll(const PixelView& from, const Shape& shape, const Place& place, bool mirror, float* out) const {
  const bool planar = from.order == PixelView::Order::kPlanar || from.channels == 1;
  if (from.floats != nullptr) {
    planar ? Write<float, 1>(from.floats, from, shape, place, mirror, out)
           : Write<float, 0>(from.floats, from, shape, place, mirror, out);
  } else if (planar) {
    Write<uint8_t, 1>(from.bytes, from, shape, place, mirror, out);
  } else if (from.channels == 3) {
    Write<uint8_t, 3>(from.bytes, from, shape, place, mirror, out);
  } else {
    Write<uint8_t, 0>(from.bytes, from, shape, place, mirror, out);
  }
}

void Transform::WriteCropped(const PixelView& from, const SampleId& id, const Shape& shape, TransformScratch& scratch,
                             std::span<float> out) const {
  const Place place = PlaceOf(SizeOf(from), id);
  if (!augmenter_.changes_pictures()) return WriteAll(from, shape, place, mirrors(id), out.data());
  WriteChanged(from, {place.x - pad_, place.y - pad_, shape[2], shape[1]}, id, scratch, out);
}

void Transform::WriteChanged(const PixelView& from, const ImageWindow& window, const SampleId& id,
                             TransformScratch& scratch, std::span<float> out) const {
  CutPicture(from, {.window = window, .mirror = mirrors(id)}, scratch.augment.cut);
  augmenter_.Change(id, scratch.augment.cut, {}, scratch.augment);
  Normalize(scratch.augment.cut, out);
}

void Transform::Normalize(const Image& picture, std::span<float> out) const {
  const Shape shape = {picture.channels, picture.height, picture.width};
  CheckChannels({picture.channels, picture.height, picture.width});
  Require(static_cast<int64_t>(out.size()) == shape.Count(), "Transform::Normalize: out has the picture's size");
  WriteAll(ViewOf(picture), shape, {.y = pad_, .x = pad_}, false, out.data());
}

void Transform::Apply(const PixelView& pixels, const SampleId& id, TransformScratch& scratch,
                      std::span<float> out) const {
  const Shape shape = OutputShape(pixels);
  Require(static_cast<int64_t>(out.size()) == shape.Count(), "Transform::Apply: out has the output shape's size");
  if (!takes_parts()) {
    WriteCropped(pixels, id, shape, scratch, out);
  } else if (pixels.bytes == nullptr) {
    throw Error(ErrorKind::kBadData, "only 8-bit records can be resized");
  } else if (const auto part = PartOf(SizeOf(pixels), id)) {
    WriteResampled(pixels, *part, id, scratch, out);
  } else {
    ResizeWhole(pixels, BoxOf({0, 0, pixels.width, pixels.height}), SizeOf(pixels), scratch);
    WriteCropped(ViewOf(scratch.resized), id, shape, scratch, out);
  }
  augmenter_.Erase(id, shape, out);
}

void Transform::ResizeWhole(const PixelView& pixels, const ImageBox& box, const ImageSize& size,
                            TransformScratch& scratch) const {
  CheckPicture(pixels);
  const ImageSize resized = ResizedShort(size);
  ResampleToImage(pixels, {box, box, resized.height, resized.width}, scratch.resample, scratch.resized);
}

DecodedPart DecodePart(const ResamplePart& part, ImageDecoder& decoder) {
  const auto& [box, limits, height, width] = part;
  const ImageWindow window{static_cast<int64_t>(limits.x), static_cast<int64_t>(limits.y),
                           static_cast<int64_t>(limits.width), static_cast<int64_t>(limits.height)};
  // Ask the decoder for so many pixels of the window that the box keeps at least the result's resolution.
  const auto least = [](int64_t result, double of, double box_side) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(result) * of / box_side));
  };
  const ImageDecoder::Part decoded =
      decoder.DecodeWindow(window, least(width, limits.width, box.width), least(height, limits.height, box.height));
  const double x = decoded.box.width / limits.width;
  const double y = decoded.box.height / limits.height;
  const ImageBox moved{decoded.box.x + (box.x - limits.x) * x, decoded.box.y + (box.y - limits.y) * y, box.width * x,
                       box.height * y};
  return {decoded.image, {moved, decoded.box, height, width}};
}

void Transform::ApplyOpened(const ImageSize& size, ImageDecoder& decoder, const SampleId& id, StageClock& clock,
                            TransformScratch& scratch, std::span<float> out) const {
  const Shape shape = OutputShape(size);
  Require(takes_parts() && static_cast<int64_t>(out.size()) == shape.Count(),
          "Transform::ApplyOpened: out has the output shape's size");
  const auto part = PartOf(size, id);
  if (!part) {
    const ImageSize resized = ResizedShort(size);
    const ImageDecoder::Part whole =
        decoder.DecodeWindow({0, 0, size.width, size.height}, resized.width, resized.height);
    clock.Enter(Stage::kTransform);
    ResizeWhole(ViewOf(*whole.image), whole.box, size, scratch);
    WriteCropped(ViewOf(scratch.resized), id, shape, scratch, out);
    return augmenter_.Erase(id, shape, out);
  }
  const DecodedPart decoded = DecodePart(*part, decoder);
  clock.Enter(Stage::kTransform);
  WriteResampled(ViewOf(*decoded.image), decoded.part, id, scratch, out);
  augmenter_.Erase(id, shape, out);
}

}  // namespace moka
