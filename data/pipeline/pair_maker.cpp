// The image goes through interpolation and the label picture through the nearest pixel, by one set of draws.
#include "data/pipeline/pair_maker.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/cut.h"
#include "data/labels/class_picture.h"

namespace moka {
namespace {

constexpr int64_t kMaxSide = 1 << 14;

Error BadPair(const std::string& text) { return {ErrorKind::kBadData, text}; }

std::string SizeText(int64_t height, int64_t width) { return StrCat(height, "x", width, " (height x width)"); }

// The window of an image, which may reach beyond it; pixels there have the value `fill`.
void CutWindow(const ImageWindow& window, uint8_t fill, Image& image, Image& scratch) {
  scratch.Resize(window.width, window.height, image.channels);
  std::ranges::fill(scratch.pixels, fill);
  const int64_t first = std::clamp<int64_t>(-window.x, 0, window.width);
  const int64_t last = std::clamp<int64_t>(image.width - window.x, first, window.width);
  for (int64_t y = 0; y < window.height; ++y) {
    const int64_t from_y = y + window.y;
    if (from_y < 0 || from_y >= image.height || last == first) continue;
    std::copy_n(image.pixels.data() + (from_y * image.width + window.x + first) * image.channels,
                (last - first) * image.channels, scratch.pixels.data() + (y * window.width + first) * image.channels);
  }
  std::swap(image, scratch);
}

void Resize(int64_t width, int64_t height, Interpolation interpolation, Image& image, Image& scratch) {
  if (image.width == width && image.height == height) return;
  ResizeImage(image, width, height, interpolation, scratch);
  std::swap(image, scratch);
}

}  // namespace

PairMaker::PairMaker(PairOptions options)
    : options_(std::move(options)), augmenter_(options_.augment, options_.phase, options_.seed) {
  for (const ListLine& line : ReadListLines(options_.list)) pairs_.push_back(ReadPair(line));
}

PairMaker::Pair PairMaker::ReadPair(const ListLine& line) const {
  const bool has_label = options_.label != PairOptions::Label::kNone;
  const size_t expected = (has_label ? 2U : 1U) + (options_.has_windows ? 4U : 0U);
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = options_.list.string(), .line = line.number}, text);
  };
  // Lists are shared by layers that read labels and layers that do not: words after the image are passed over then.
  if (line.words.size() != expected && (has_label || options_.has_windows || line.words.empty())) {
    fail(StrCat("expected \"image", has_label ? " label" : "", options_.has_windows ? " x1 y1 x2 y2" : "",
                "\" without blanks in the names, found ", line.words.size(), " words: \"",
                Printable(Join(line.words, " ")), "\""));
  }
  Pair pair{.image = line.words[0], .label = has_label ? line.words[1] : "", .number = 0, .line = line.number};
  if (options_.label == PairOptions::Label::kNumber) {
    const int64_t number = NumberOf(pair.label, "the label", options_.list, line.number);
    if (number < 0 || number > UINT8_MAX)
      fail(StrCat("the label of the image's pixels is ", number, ", expected 0..255"));
    pair.number = static_cast<int>(number);
  }
  if (!options_.has_windows) return pair;
  std::array<int64_t, 4> sides{};
  for (size_t i = 0; i < sides.size(); ++i) {
    sides.at(i) = NumberOf(line.words[expected - 4 + i], "a side of the window", options_.list, line.number);
  }
  const auto& [x1, y1, x2, y2] = sides;
  if (x2 < x1 || y2 < y1 || x2 - x1 >= kMaxSide || y2 - y1 >= kMaxSide) {
    fail(StrCat("the window ", x1, " ", y1, " ", x2, " ", y2, " is empty or larger than ", kMaxSide, " pixels"));
  }
  pair.window = {.x = x1, .y = y1, .width = x2 - x1 + 1, .height = y2 - y1 + 1};
  return pair;
}

std::string PairMaker::NameOf(int64_t record) const {
  const Pair& pair = pairs_[static_cast<size_t>(record)];
  return StrCat(options_.list.string(), ":", pair.line, ": image \"", Printable(pair.image), "\"");
}

void PairMaker::ReadPicture(const std::string& path, Kind kind, SampleScratch& scratch, Image& image) const {
  const std::string name = StrCat(options_.prefix, path);
  try {
    scratch.record.clock.Enter(Stage::kRead);
    const std::string file = ReadFile(options_.base / name);
    scratch.record.clock.Enter(Stage::kDecode);
    if (kind == Kind::kClasses) {
      DecodeClassPicture(file, StrCat("\"", Printable(name), "\""), scratch.record.decoder, image);
    } else {
      const ImageChannels channels = kind == Kind::kImage ? options_.channels : ImageChannels::kGray;
      scratch.record.decoder.Decode(file, {.channels = channels}, image);
    }
  } catch (const Error& error) {
    throw Error(error.kind(), {}, StrCat("\"", Printable(name), "\": ", error.text()), error.hint());
  }
}

CropSize PairMaker::Load(const Pair& pair, SampleScratch& scratch) const {
  PictureScratch& p = scratch.pictures;
  ReadPicture(pair.image, Kind::kImage, scratch, p.image);
  CropSize size{p.image.height, p.image.width};
  if (options_.label == PairOptions::Label::kPicture) {
    ReadPicture(pair.label, options_.makes_edges ? Kind::kEdges : Kind::kClasses, scratch, p.label);
  } else {
    p.label.Resize(p.image.width, p.image.height, 1);
    const int value = options_.label == PairOptions::Label::kNumber ? pair.number : options_.ignore_label;
    std::ranges::fill(p.label.pixels, static_cast<uint8_t>(std::clamp(value, 0, 255)));
  }
  if (options_.has_windows) {
    if (p.label.height != p.image.height || p.label.width != p.image.width) {
      throw BadPair(StrCat("the label image is ", SizeText(p.label.height, p.label.width), ", the image ",
                           SizeText(p.image.height, p.image.width)));
    }
    CutWindow(pair.window, 0, p.image, p.changed);
    CutWindow(pair.window, static_cast<uint8_t>(std::clamp(options_.ignore_label, 0, 255)), p.label, p.changed);
  }
  if (options_.height > 0) {
    Resize(options_.width, options_.height, Interpolation::kLinear, p.image, p.changed);
    Resize(options_.width / options_.label_divide, options_.height / options_.label_divide,
           options_.label_interpolation, p.label, p.changed);
  }
  if (options_.sizes == PairOptions::Sizes::kResized) size = {p.image.height, p.image.width};
  const int64_t divide = options_.label_divide;
  if (p.label.height != p.image.height / divide || p.label.width != p.image.width / divide) {
    throw BadPair(StrCat("the label image is ", SizeText(p.label.height, p.label.width), ", expected ",
                         SizeText(p.image.height / divide, p.image.width / divide), " for the image"));
  }
  return size;
}

// Sides are cut to whole pixels, as PSPNet does.
void PairMaker::Rescale(RandomStream& random, PictureScratch& p) const {
  if (options_.scale_factors.empty()) return;
  const float factor = options_.scale_factors[static_cast<size_t>(random.Below(options_.scale_factors.size()))];
  const auto height = static_cast<int64_t>(static_cast<float>(p.image.height) * factor);
  const auto width = static_cast<int64_t>(static_cast<float>(p.image.width) * factor);
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide) {
    throw BadPair(StrCat("scale factor ", factor, " would make the image ", SizeText(height, width)));
  }
  Resize(width, height, Interpolation::kLinear, p.image, p.changed);
  Resize(width, height, Interpolation::kNearest, p.label, p.changed);
}

Shape PairMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  Load(pairs_[static_cast<size_t>(record)], scratch);
  const Image& image = scratch.pictures.image;
  if (options_.crop.height > 0) return {image.channels, options_.crop.height, options_.crop.width};
  return {image.channels, image.height, image.width};
}

std::vector<Shape> PairMaker::LabelShapes(int64_t batch_size, const Shape& sample) const {
  const CropSize label = LabelSize(sample);
  return {{batch_size, 1, label.height, label.width}, {batch_size, 1, 1, 2}};
}

void PairMaker::CheckMean(const Image& image, const Shape& sample) const {
  const size_t values = options_.mean.values.size();
  if (values > 1 && values != static_cast<size_t>(image.channels)) {
    throw BadPair(StrCat("transform_param.mean_value has ", values, " values, the image has ", image.channels,
                         " channels; give one value or one a channel"));
  }
  if (options_.mean.shape.rank() == 0) return;
  const Shape expected =
      options_.mean_of == PairOptions::MeanOf::kCrop ? sample : Shape{image.channels, image.height, image.width};
  if (options_.mean.shape == expected) return;
  throw BadPair(
      StrCat("the mean image has shape ", options_.mean.shape.ToString(), ", expected ", expected.ToString()));
}

void PairMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& shape, SampleScratch& scratch,
                     std::span<float> data, std::span<float> label) const {
  const CropSize size = Load(pairs_[static_cast<size_t>(record)], scratch);
  scratch.record.clock.Enter(Stage::kTransform);
  PictureScratch& p = scratch.pictures;
  RandomStream random(options_.seed, StreamOf(id));
  Rescale(random, p);
  const bool crops = options_.crop.height > 0;
  const bool fits =
      crops ? options_.small == PairOptions::Small::kPadded || (p.image.height >= shape[1] && p.image.width >= shape[2])
            : p.image.height == shape[1] && p.image.width == shape[2];
  if (p.image.channels != shape[0] || !fits) {
    const std::string is = StrCat("the image is ", SizeText(p.image.height, p.image.width));
    throw Error(ErrorKind::kBadData, {},
                crops ? StrCat(is, ", a crop of ", SizeText(shape[1], shape[2]), " does not fit it")
                      : StrCat(is, ", the first was ", SizeText(shape[1], shape[2])),
                crops ? "" : "all samples of a layer have one shape: set new_height and new_width, or a crop");
  }
  CheckMean(p.image, shape);
  Cut cut;
  const int64_t free_y = std::max<int64_t>(p.image.height - shape[1], 0);
  const int64_t free_x = std::max<int64_t>(p.image.width - shape[2], 0);
  const bool is_random = options_.place == PairOptions::Place::kRandom;
  cut.y = is_random ? static_cast<int64_t>(random.Below(static_cast<uint64_t>(free_y + 1))) : free_y / 2;
  cut.x = is_random ? static_cast<int64_t>(random.Below(static_cast<uint64_t>(free_x + 1))) : free_x / 2;
  cut.mirror = options_.mirror && IsMirrored(options_.seed, id);
  if (augmenter_.changes_pictures()) Augment(id, shape, cut, scratch);
  WriteImage(p.image, cut, shape, data);
  augmenter_.Erase(id, shape, data);
  const CropSize label_size = LabelSize(shape);
  const auto pixels = static_cast<size_t>(label_size.height * label_size.width);
  WriteLabel(p.label, cut, shape, label.first(pixels));
  label[pixels] = static_cast<float>(std::min(size.height, shape[1]));
  label[pixels + 1] = static_cast<float>(std::min(size.width, shape[2]));
}

// Beyond the image lies the mean, rounded, as in WriteImage; label pixels there are to be ignored, as in WriteLabel.
// Label pictures smaller than the image are only mirrored: their layers have no changes of shape (CheckAugment).
void PairMaker::Augment(const SampleId& id, const Shape& shape, Cut& cut, SampleScratch& scratch) const {
  PictureScratch& p = scratch.pictures;
  PictureCut picture{.window = {cut.x, cut.y, shape[2], shape[1]}, .mirror = cut.mirror};
  for (size_t c = 0; c < 3; ++c) {
    const float mean = options_.mean.ValueOf(static_cast<int64_t>(c));
    picture.beyond.at(c) = static_cast<uint8_t>(std::clamp(std::round(mean), 0.0F, 255.0F));
  }
  CutPicture(ViewOf(p.image), picture, p.changed);
  std::swap(p.image, p.changed);
  const CropSize size = LabelSize(shape);
  const auto ignored = static_cast<uint8_t>(std::clamp(options_.ignore_label, 0, 255));
  CutPicture(ViewOf(p.label),
             {.window = {cut.x, cut.y, size.width, size.height}, .mirror = cut.mirror, .beyond = {ignored}}, p.changed);
  std::swap(p.label, p.changed);
  cut = {};
  const FollowingMask label{&p.label, static_cast<uint8_t>(std::clamp(options_.outside_label, 0, 255))};
  const size_t masks = options_.label_divide == 1 ? 1 : 0;
  augmenter_.Change(id, p.image, {.masks = {&label, masks}}, scratch.transform.augment);
}

// Beyond the image lies the mean, which is 0 once it is subtracted.
void PairMaker::WriteImage(const Image& image, const Cut& cut, const Shape& shape, std::span<float> out) const {
  const bool has_mean_image = options_.mean.shape.rank() > 0;
  const bool mean_of_crop = options_.mean_of == PairOptions::MeanOf::kCrop;
  float* to = out.data();
  for (int64_t c = 0; c < shape[0]; ++c) {
    const float value = options_.mean.ValueOf(c);
    for (int64_t y = 0; y < shape[1]; ++y, to += shape[2]) {
      const int64_t from_y = y + cut.y;
      for (int64_t x = 0; x < shape[2]; ++x) {
        const int64_t from_x = x + cut.x;
        const int64_t to_x = cut.mirror ? shape[2] - 1 - x : x;
        if (from_y >= image.height || from_x >= image.width) {
          to[to_x] = 0;
          continue;
        }
        const int64_t mean_at =
            mean_of_crop ? (c * shape[1] + y) * shape[2] + to_x : (c * image.height + from_y) * image.width + from_x;
        const float mean = has_mean_image ? options_.mean.image[static_cast<size_t>(mean_at)] : value;
        const uint8_t pixel = image.pixels[static_cast<size_t>((from_y * image.width + from_x) * image.channels + c)];
        to[to_x] = (static_cast<float>(pixel) - mean) * options_.scale;
      }
    }
  }
}

// A label image with a part of the sides is never cropped (its opener sees to that), so the cut is at 0.
void PairMaker::WriteLabel(const Image& label, const Cut& cut, const Shape& shape, std::span<float> out) const {
  const CropSize size = LabelSize(shape);
  const auto beyond = static_cast<float>(std::clamp(options_.ignore_label, 0, 255));
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const int64_t from_y = y + cut.y;
      const int64_t from_x = x + cut.x;
      float value = beyond;
      if (from_y < label.height && from_x < label.width) {
        const uint8_t pixel = label.pixels[static_cast<size_t>(from_y * label.width + from_x)];
        value = options_.makes_edges ? (pixel >= 128 ? 1.0F : 0.0F) : static_cast<float>(pixel);
      }
      out[static_cast<size_t>(y * size.width + (cut.mirror ? size.width - 1 - x : x))] = value;
    }
  }
}

}  // namespace moka
