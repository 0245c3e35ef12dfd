// One window is drawn for the image and the boxes follow it in fractions of its sides; a box that does not meet
// emit_constraint, or of which nothing is left, is dropped.
#include "data/transform/box_transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "data/image/picture_limits.h"
#include "data/transform/image_adjust.h"
#include "data/transform/transform.h"

namespace moka {
namespace {

// The first: several stand for batches of several sizes, which a net of fixed shapes cannot take.
const ResizeParameter& ResizeOf(const TransformationParameter& p) {
  return p.resize_param_size() > 0 ? p.resize_param(0) : ResizeParameter::default_instance();
}

Error Fault(std::string_view field, const std::string& text) {
  return {ErrorKind::kConfig, StrCat("transform_param.", field, ": ", text)};
}

// A value of a repeated field that holds one, or one a channel.
float ValueOf(const google::protobuf::RepeatedField<float>& values, int64_t channel, float none) {
  if (values.empty()) return none;
  return values.size() == 1 ? values[0] : values[static_cast<int>(channel)];
}

bool Happens(RandomStream& random, float probability) { return random.Uniform() < double{probability}; }

float DrawWithin(RandomStream& random, float low, float high) {
  return static_cast<float>(random.Uniform(double{low}, double{high}));
}

Interpolation InterpolationOf(const ResizeParameter& p, RandomStream& random) {
  if (p.interp_mode().empty()) return Interpolation::kLinear;
  switch (p.interp_mode(static_cast<int>(random.Below(static_cast<uint64_t>(p.interp_mode_size()))))) {
    case ResizeParameter::AREA: return Interpolation::kArea;
    case ResizeParameter::NEAREST: return Interpolation::kNearest;
    case ResizeParameter::CUBIC: return Interpolation::kCubic;
    case ResizeParameter::LANCZOS4: return Interpolation::kLanczos4;
    default: return Interpolation::kLinear;
  }
}

Padding PaddingOf(const ResizeParameter& p) {
  if (p.pad_mode() == ResizeParameter::MIRRORED) return Padding::kMirrored;
  return p.pad_mode() == ResizeParameter::REPEAT_NEAREST ? Padding::kNearest : Padding::kConstant;
}

// The size an image keeps inside height x width with its own aspect.
ImageWindow Inside(const Image& image, int64_t height, int64_t width) {
  const float aspect = static_cast<float>(image.width) / static_cast<float>(image.height);
  ImageWindow fit{0, 0, width, height};
  if (aspect > static_cast<float>(width) / static_cast<float>(height)) {
    fit.height = std::clamp<int64_t>(static_cast<int64_t>(static_cast<float>(width) / aspect), 1, height);
  } else {
    fit.width = std::clamp<int64_t>(static_cast<int64_t>(aspect * static_cast<float>(height)), 1, width);
  }
  fit.x = (width - fit.width) / 2;
  fit.y = (height - fit.height) / 2;
  return fit;
}

void CheckRange(std::string_view field, float low, float high) {
  if (low >= 0 && low <= high && std::isfinite(high)) return;
  throw Fault("distort_param", StrCat(field, " from ", low, " to ", high, ", expected 0 <= lower <= upper"));
}

// Checks what a fork for faces adds: other samplers in place of SSD's, and landmarks.
void CheckForks(const AnnotatedDataParameter& p) {
  const auto check = [](bool is_fine, std::string_view field, std::string_view text) {
    if (!is_fine) throw Error(ErrorKind::kConfig, StrCat("annotated_data_param.", field, " ", text));
  };
  check(!p.yoloformat(), "yoloformat", "is not supported: labels are SSD's rows");
  check(!p.has_landmarks(), "has_landmarks", "is not supported: records have boxes alone");
  const bool is_ssds =
      p.crop_type() == AnnotatedDataParameter::CROP_DEFAULT || p.crop_type() == AnnotatedDataParameter::CROP_BATCH;
  check(is_ssds, "crop_type", "is CROP_DEFAULT or CROP_BATCH: no sampler but batch_sampler is supported");
  const float jitter = p.yolo_data_jitter();
  check(jitter >= 0 && jitter < 1, "yolo_data_jitter", "must be from 0 to, not with, 1");
  check(!p.difficult_label_warmup(), "difficult_label_warmup", "is not supported: records do not know the iteration");
}

}  // namespace

ImageWindow PixelsOf(const NormalBox& window, int64_t width, int64_t height) {
  const auto pixels = [](float part, int64_t side) {
    return std::clamp<int64_t>(static_cast<int64_t>(part * static_cast<float>(side)), 0, side);
  };
  ImageWindow cut{pixels(window.xmin, width), pixels(window.ymin, height), pixels(window.xmax - window.xmin, width),
                  pixels(window.ymax - window.ymin, height)};
  cut.width = std::min(cut.width, width - cut.x);
  cut.height = std::min(cut.height, height - cut.y);
  return cut;
}

BoxTransform::BoxTransform(const TransformationParameter& param, const AnnotatedDataParameter& sampling, Phase phase,
                           uint64_t seed)
    : param_(param), sampling_(sampling), phase_(phase), seed_(seed), augmenter_(param, phase, seed) {
  CheckFields();
  CheckForks(sampling);
  CheckSamplers(sampling.batch_sampler());
  crop_height_ = param.crop_size() > 0 ? param.crop_size() : param.crop_h();
  crop_width_ = param.crop_size() > 0 ? param.crop_size() : param.crop_w();
  if (param.force_color()) channels_ = ImageChannels::kColor;
  if (param.force_gray()) channels_ = ImageChannels::kGray;
}

void BoxTransform::CheckFields() const {
  const TransformationParameter& p = param_;
  if (p.force_color() && p.force_gray()) throw Fault("force_gray", "force_color is set too; keep one");
  if (p.has_mean_file()) throw Fault("mean_file", "a mean image does not fit images that are cut; use mean_value");
  if (p.resize_param_yolo_size() > 0) throw Fault("resize_param_yolo", "is YoloAnnotatedData's; set resize_param");
  if (p.has_noise_param()) throw Fault("noise_param", "is not supported");
  if (p.pad() > 0) throw Fault("pad", "does not go with boxes");
  if (p.has_rand_resized_crop()) throw Fault("rand_resized_crop", "does not go with boxes; use a batch_sampler");
  if (p.resize_short() > 0) throw Fault("resize_short", "does not go with boxes; use resize_param");
  if (p.crop_size() > 0 && (p.crop_h() > 0 || p.crop_w() > 0)) throw Fault("crop_size", "crop_h or crop_w is set too");
  if ((p.crop_h() > 0) != (p.crop_w() > 0)) throw Fault("crop_h", "crop_h and crop_w must be set together");
  if (!std::isfinite(p.scale())) throw Fault("scale", StrCat(p.scale(), " is not a finite number"));
  for (const float mean : p.mean_value()) {
    if (!std::isfinite(mean)) throw Fault("mean_value", StrCat(mean, " is not a finite number"));
  }
  for (const float value : p.std_value()) {
    if (!std::isfinite(value) || value <= 0) throw Fault("std_value", StrCat(value, " is not a positive number"));
  }
  if (p.resize_param_size() > 0) {
    const ResizeParameter& r = ResizeOf(p);
    if (r.resize_mode() == ResizeParameter::FIT_SMALL_SIZE) {
      throw Fault("resize_param", "FIT_SMALL_SIZE gives images of many sizes; use WARP or FIT_LARGE_SIZE_AND_PAD");
    }
    if (!IsPictureSize(r.height(), r.width())) {
      throw Fault("resize_param", StrCat("height ", r.height(), " and width ", r.width(), ", expected 1..",
                                         kMostPictureSide, ", at most ", kMostPicturePixels, " pixels together"));
    }
  }
  const bool changes_size = p.has_expand_param() || sampling_.batch_sampler_size() > 0 || Jitters();
  if (changes_size && p.resize_param_size() == 0 && p.crop_size() == 0 && p.crop_h() == 0) {
    throw Fault("resize_param", "is needed: expansion and batch samplers give images of many sizes");
  }
  const float expansion = p.expand_param().max_expand_ratio();
  if (!(expansion >= 1 && expansion <= 64)) {
    throw Fault("expand_param", StrCat("max_expand_ratio is ", expansion, ", expected 1..64"));
  }
  const DistortionParameter& d = p.distort_param();
  if (d.gaussian_prob() != 0) throw Fault("distort_param", "gaussian_prob must be 0: its fork's blur is not public");
  CheckRange("brightness", 0, d.brightness_delta());
  CheckRange("hue", 0, d.hue_delta());
  CheckRange("contrast", d.contrast_lower(), d.contrast_upper());
  CheckRange("saturation", d.saturation_lower(), d.saturation_upper());
}

// YOLO's jittered windows, which batch samplers take precedence over.
bool BoxTransform::Jitters() const {
  const bool is_yolo = sampling_.yolo_data_type() == 1 || sampling_.has_yolo_data_jitter();
  return is_yolo && sampling_.yolo_data_jitter() > 0 && sampling_.batch_sampler().empty();
}

float BoxTransform::Mean(int64_t channel) const { return ValueOf(param_.mean_value(), channel, 0); }
float BoxTransform::Std(int64_t channel) const { return ValueOf(param_.std_value(), channel, 1); }

Shape BoxTransform::OutputShape(const Image& image) const {
  for (const auto& [field, count] :
       {std::pair("mean_value", param_.mean_value_size()), std::pair("std_value", param_.std_value_size()),
        std::pair("resize_param[0].pad_value", ResizeOf(param_).pad_value_size())}) {
    if (count <= 1 || count == image.channels) continue;
    throw Error(ErrorKind::kBadData, StrCat("transform_param.", field, " has ", count, " values, the record has ",
                                            image.channels, " channels; give one, or one a channel",
                                            count == 3 && image.channels == 1 ? ", or set force_color" : ""));
  }
  const bool resizes = param_.resize_param_size() > 0;
  const int64_t height = resizes ? ResizeOf(param_).height() : image.height;
  const int64_t width = resizes ? ResizeOf(param_).width() : image.width;
  if (crop_height_ > height || crop_width_ > width) {
    throw Error(ErrorKind::kBadData, CropFault(param_, crop_height_, crop_width_, height, width));
  }
  return {image.channels, crop_height_ > 0 ? crop_height_ : height, crop_width_ > 0 ? crop_width_ : width};
}

// In coordinates of the whole image: padding by FIT_LARGE_SIZE_AND_PAD makes the seen part larger than the image, a
// crop makes it smaller.
ImageBox BoxTransform::SeenOf(int64_t height, int64_t width) const {
  ImageBox seen{0, 0, 1, 1};
  auto canvas_height = static_cast<double>(height);
  auto canvas_width = static_cast<double>(width);
  if (param_.resize_param_size() > 0) {
    canvas_height = ResizeOf(param_).height();
    canvas_width = ResizeOf(param_).width();
    if (ResizeOf(param_).resize_mode() != ResizeParameter::WARP) {
      const double wider = static_cast<double>(width) / static_cast<double>(height) * canvas_height / canvas_width;
      seen.width = std::max(1.0, 1 / wider);
      seen.height = std::max(1.0, wider);
      seen.x = (1 - seen.width) / 2;
      seen.y = (1 - seen.height) / 2;
    }
  }
  if (crop_height_ == 0) return seen;
  const double part_x = static_cast<double>(crop_width_) / canvas_width;
  const double part_y = static_cast<double>(crop_height_) / canvas_height;
  return {seen.x + (1 - part_x) / 2 * seen.width, seen.y + (1 - part_y) / 2 * seen.height, part_x * seen.width,
          part_y * seen.height};
}

bool BoxTransform::IsEmitted(const NormalBox& window, const NormalBox& box) const {
  if (!param_.has_emit_constraint()) return true;
  if (param_.emit_constraint().emit_type() == EmitConstraint::MIN_OVERLAP) {
    return Coverage(box, window) > param_.emit_constraint().emit_overlap();
  }
  const float x = (box.xmin + box.xmax) / 2;
  const float y = (box.ymin + box.ymax) / 2;
  return x >= window.xmin && x <= window.xmax && y >= window.ymin && y <= window.ymax;
}

// Boxes become parts of the window. A box of no area in it is dropped, as is one that emit_constraint does not let
// through.
void BoxTransform::Project(const NormalBox& window, std::vector<Annotated>& annotations) const {
  const float width = window.xmax - window.xmin;
  const float height = window.ymax - window.ymin;
  const auto inside = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
  std::erase_if(annotations, [&](Annotated& a) {
    if (!IsEmitted(window, a.box)) return true;
    a.box = {inside((a.box.xmin - window.xmin) / width), inside((a.box.ymin - window.ymin) / height),
             inside((a.box.xmax - window.xmin) / width), inside((a.box.ymax - window.ymin) / height)};
    return !(a.box.Area() > 0);
  });
}

// SSD's order (Liu et al., arXiv 1512.02325): brightness, contrast before or after saturation and hue by a coin's
// throw, then the channels' order.
void BoxTransform::Distort(RandomStream& random, BoxScratch& scratch) const {
  if (!param_.has_distort_param()) return;
  const DistortionParameter& d = param_.distort_param();
  const bool contrast_first = random.Uniform() > 0.5;
  const auto contrast = [&] {
    if (!Happens(random, d.contrast_prob())) return;
    MultiplyPixels(DrawWithin(random, d.contrast_lower(), d.contrast_upper()), scratch.image);
  };
  if (Happens(random, d.brightness_prob())) {
    AddToPixels(DrawWithin(random, -d.brightness_delta(), d.brightness_delta()), scratch.image);
  }
  if (contrast_first) contrast();
  if (Happens(random, d.saturation_prob())) {
    MultiplySaturation(DrawWithin(random, d.saturation_lower(), d.saturation_upper()), scratch.image);
  }
  if (Happens(random, d.hue_prob())) ShiftHue(DrawWithin(random, -d.hue_delta(), d.hue_delta()), scratch.image);
  if (!contrast_first) contrast();
  if (!Happens(random, d.random_order_prob()) || scratch.image.channels != 3) return;
  std::array<int, 3> order = {0, 1, 2};
  for (size_t i = 2; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  ReorderChannels(order, scratch.image);
}

// "Zoom out" of SSD: the image is placed at random on a larger canvas of the mean's colour, so that objects become
// smaller.
void BoxTransform::Expand(RandomStream& random, BoxScratch& scratch) const {
  const ExpansionParameter& e = param_.expand_param();
  if (!param_.has_expand_param() || !Happens(random, e.prob()) || std::abs(e.max_expand_ratio() - 1) < 1e-2F) return;
  const Image& image = scratch.image;
  const float ratio = DrawWithin(random, 1, e.max_expand_ratio());
  const auto height = std::max(image.height, static_cast<int64_t>(static_cast<float>(image.height) * ratio));
  const auto width = std::max(image.width, static_cast<int64_t>(static_cast<float>(image.width) * ratio));
  const auto top = static_cast<int64_t>(random.Uniform(0, static_cast<double>(height - image.height)));
  const auto left = static_cast<int64_t>(random.Uniform(0, static_cast<double>(width - image.width)));
  const auto part = [](int64_t pixels, int64_t of) { return static_cast<float>(pixels) / static_cast<float>(of); };
  const NormalBox canvas{-part(left, image.width), -part(top, image.height), part(width - left, image.width),
                         part(height - top, image.height)};
  Project(canvas, scratch.annotations);
  const std::array<float, 3> mean = {Mean(0), image.channels == 3 ? Mean(1) : 0, image.channels == 3 ? Mean(2) : 0};
  PadImage(image, {top, height - image.height - top, left, width - image.width - left}, Padding::kConstant, mean,
           scratch.other);
  std::swap(scratch.image, scratch.other);
}

// The window is drawn by its overlap with the objects, then cut out; boxes follow.
void BoxTransform::Sample(RandomStream& random, BoxScratch& scratch) const {
  NormalBox window;
  if (Jitters()) {
    const bool keeps_aspect = ResizeOf(param_).resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD;
    window = JitterWindow(sampling_.yolo_data_jitter(), keeps_aspect, random);
  } else if (sampling_.batch_sampler().empty() ||
             !SampleWindow(sampling_.batch_sampler(), scratch.annotations, random, scratch.windows, window)) {
    return;
  }
  const Image& image = scratch.image;
  const ImageWindow cut = PixelsOf(window, image.width, image.height);
  if (cut.width < 1 || cut.height < 1) return;  // of a tiny image; Caffe would fail
  scratch.window = window;
  const auto inside = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
  Project({inside(window.xmin), inside(window.ymin), inside(window.xmax), inside(window.ymax)}, scratch.annotations);
  CropImage(image, cut, scratch.other);
  std::swap(scratch.image, scratch.other);
}

void BoxTransform::Resize(RandomStream& random, BoxScratch& scratch) const {
  if (param_.resize_param_size() == 0) return;
  const ResizeParameter& r = ResizeOf(param_);
  const int64_t height = r.height();
  const int64_t width = r.width();
  const Interpolation interpolation = InterpolationOf(r, random);
  if (r.resize_mode() == ResizeParameter::WARP) {
    ResizeImage(scratch.image, width, height, interpolation, scratch.other);
    std::swap(scratch.image, scratch.other);
    return;
  }
  const float old_aspect = static_cast<float>(scratch.image.width) / static_cast<float>(scratch.image.height);
  const ImageWindow fit = Inside(scratch.image, height, width);
  ResizeImage(scratch.image, fit.width, fit.height, interpolation, scratch.other);
  const std::array<float, 3> values = {ValueOf(r.pad_value(), 0, 0),
                                       scratch.image.channels == 3 ? ValueOf(r.pad_value(), 1, 0) : 0,
                                       scratch.image.channels == 3 ? ValueOf(r.pad_value(), 2, 0) : 0};
  PadImage(scratch.other, {fit.y, height - fit.height - fit.y, fit.x, width - fit.width - fit.x}, PaddingOf(r), values,
           scratch.image);
  // Boxes move by the exact sizes, as in Caffe; the pixels by whole ones.
  const float aspect = static_cast<float>(width) / static_cast<float>(height);
  const float share_x = std::min(1.0F, old_aspect / aspect);
  const float share_y = std::min(1.0F, aspect / old_aspect);
  for (Annotated& a : scratch.annotations) {
    a.box = {(1 - share_x) / 2 + a.box.xmin * share_x, (1 - share_y) / 2 + a.box.ymin * share_y,
             (1 - share_x) / 2 + a.box.xmax * share_x, (1 - share_y) / 2 + a.box.ymax * share_y};
  }
}

PictureCut BoxTransform::Crop(RandomStream& random, BoxScratch& scratch) const {
  const Image& image = scratch.image;
  const int64_t height = crop_height_ > 0 ? crop_height_ : image.height;
  const int64_t width = crop_width_ > 0 ? crop_width_ : image.width;
  if (height > image.height || width > image.width) {
    throw Error(ErrorKind::kBadData,
                StrCat(CropFault(param_, height, width, image.height, image.width), "; set resize_param"));
  }
  scratch.is_mirrored = param_.mirror() && (random.Bits() & 1U) != 0;
  int64_t top = (image.height - height) / 2;
  int64_t left = (image.width - width) / 2;
  if (phase_ == TRAIN) {
    top = static_cast<int64_t>(random.Below(static_cast<uint64_t>(image.height - height + 1)));
    left = static_cast<int64_t>(random.Below(static_cast<uint64_t>(image.width - width + 1)));
  }
  const auto part = [](int64_t pixels, int64_t of) { return static_cast<float>(pixels) / static_cast<float>(of); };
  Project({part(left, image.width), part(top, image.height), part(left + width, image.width),
           part(top + height, image.height)},
          scratch.annotations);
  if (scratch.is_mirrored) {
    for (Annotated& a : scratch.annotations) a.box = {1 - a.box.xmax, a.box.ymin, 1 - a.box.xmin, a.box.ymax};
  }
  return {.window = {left, top, width, height}, .mirror = scratch.is_mirrored};
}

// Boxes that a change turns out of the picture go by the rules that they leave a crop by.
void BoxTransform::Augment(const SampleId& id, PictureCut& cut, BoxScratch& scratch) const {
  CutPicture(ViewOf(scratch.image), cut, scratch.other);
  std::swap(scratch.image, scratch.other);
  cut = {.window = {0, 0, scratch.image.width, scratch.image.height}};
  augmenter_.Change(id, scratch.image,
                    {.boxes = &scratch.annotations,
                     .cut_boxes =
                         [&] {
                           Project({0, 0, 1, 1}, scratch.annotations);
                         }},
                    scratch.augment);
}

// From interleaved bytes to planes of floats: mean and scale in the same pass.
void BoxTransform::Write(const Image& image, const PictureCut& cut, std::span<float> out) const {
  const int64_t height = cut.window.height;
  const int64_t width = cut.window.width;
  Require(static_cast<int64_t>(out.size()) == image.channels * height * width, "Apply: out holds OutputShape");
  for (int64_t c = 0; c < image.channels; ++c) {
    const float mean = Mean(c);
    const float scale = param_.scale() / Std(c);
    for (int64_t y = 0; y < height; ++y) {
      const int64_t first = (cut.window.y + y) * image.width + cut.window.x;
      const uint8_t* from = &image.pixels[static_cast<size_t>(first * image.channels + c)];
      float* to = &out[static_cast<size_t>((c * height + y) * width)];
      for (int64_t x = 0; x < width; ++x) {
        to[cut.mirror ? width - 1 - x : x] = (static_cast<float>(from[x * image.channels]) - mean) * scale;
      }
    }
  }
}

// A stream of random numbers for each record and epoch: the sample does not depend on the worker that makes it.
void BoxTransform::Apply(const SampleId& id, BoxScratch& scratch, std::span<float> out) const {
  RandomStream random(seed_, id.epoch << 40U | id.record);
  scratch.window = {0, 0, 1, 1};
  Distort(random, scratch);
  Expand(random, scratch);
  Sample(random, scratch);
  Resize(random, scratch);
  PictureCut cut = Crop(random, scratch);
  if (augmenter_.changes_pictures()) Augment(id, cut, scratch);
  Write(scratch.image, cut, out);
  augmenter_.Erase(id, {scratch.image.channels, cut.window.height, cut.window.width}, out);
}

}  // namespace moka
