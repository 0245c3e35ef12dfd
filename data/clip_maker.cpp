#include "data/clip_maker.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/file.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kClipBytes = int64_t{4} << 30U;
constexpr uint64_t kClipMirrorPosition = uint64_t{1} << 20U;  // after the draws of all frames

// Crops of a multi-scale sample: sides that are a part of the shorter side each, not more than max_distort ratios
// apart; a side that is nearly the crop's is the crop's.
std::vector<CropSize> CropSizes(const CropSize& size, const ClipOptions& options) {
  static const std::vector<float> usual = {1.0F, 0.875F, 0.75F, 0.66F};
  const std::vector<float>& ratios = options.scale_ratios.empty() ? usual : options.scale_ratios;
  const auto shorter = static_cast<float>(std::min(size.height, size.width));
  const auto side = [&](float ratio) {
    const auto pixels = static_cast<int64_t>(shorter * ratio);
    return std::abs(pixels - options.crop_size) < 3 ? options.crop_size : pixels;
  };
  std::vector<CropSize> sizes;
  const auto count = static_cast<int>(ratios.size());
  for (int h = 0; h < count; ++h) {
    for (int w = 0; w < count; ++w) {
      if (std::abs(h - w) > options.max_distort) continue;
      sizes.push_back({side(ratios[static_cast<size_t>(h)]), side(ratios[static_cast<size_t>(w)])});
    }
  }
  return sizes;
}

// Corners and centre, then the middles of the sides and the centres of the quarters, in quarters of what is free.
struct Corner {
  int64_t y = 0;
  int64_t x = 0;
};
constexpr Corner kCorners[] = {{0, 0}, {0, 4}, {4, 0}, {4, 4}, {2, 2}, {0, 2}, {4, 2},
                               {2, 0}, {2, 4}, {1, 1}, {1, 3}, {3, 1}, {3, 3}};
constexpr uint64_t kFewCorners = 5;

}  // namespace

ClipMaker::ClipMaker(ClipOptions options) : options_(std::move(options)) {
  FrameName(1, 'x');  // a pattern that names no frame is told now
  for (const ListLine& line : ReadListLines(options_.list)) {
    if (line.words.size() != 3) {
      const bool counts = options_.jitter || options_.dialect == ClipOptions::Dialect::kSegments;
      throw Error(ErrorKind::kBadData, SourcePlace{.file = options_.list.string(), .line = line.number},
                  StrCat("expected \"folder ", counts ? "frames" : "first_frame", " label\", found ", line.words.size(),
                         " words: \"", Printable(Join(line.words, " ")), "\""));
    }
    clips_.push_back({.folder = line.words[0],
                      .number = NumberOf(line.words[1], "the frame number", options_.list, line.number),
                      .label = NumberOf(line.words[2], "the label", options_.list, line.number),
                      .line = line.number});
  }
}

std::string ClipMaker::NameOf(int64_t record) const {
  const Clip& clip = clips_[static_cast<size_t>(record)];
  return StrCat(options_.list.string(), ":", clip.line, ": clip \"", Printable(clip.folder), "\"");
}

// "%c", "%d", "%4d" and "%04d" of a pattern; others are refused, so that a pattern is no program.
std::string ClipMaker::FrameName(int64_t frame, char axis) const {
  const std::string& pattern = options_.pattern;
  const auto refuse = [&](std::string_view why) -> Error {
    return {ErrorKind::kConfig,
            {},
            StrCat("name_pattern \"", Printable(pattern), "\" ", why),
            "write it like image_%04d.jpg, or flow_%c_%04d.jpg for optical flow"};
  };
  std::string name;
  bool has_frame = false;
  bool has_axis = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    size_t end = i + 1;
    while (end < pattern.size() && std::isdigit(static_cast<unsigned char>(pattern[end])) != 0) ++end;
    const std::string width = pattern.substr(i + 1, end - i - 1);
    if (end == pattern.size() || width.size() > 3) throw refuse("has a % that is followed by no d or c");
    if (pattern[end] == 'c' && width.empty()) {
      name += axis;
      has_axis = true;
    } else if (pattern[end] == 'd') {
      const std::string digits = std::to_string(frame);
      const size_t wanted = width.empty() ? 0 : static_cast<size_t>(std::stoi(width));
      const char fill = width.starts_with('0') ? '0' : ' ';
      if (digits.size() < wanted) name.append(wanted - digits.size(), fill);
      name += digits;
      has_frame = true;
    } else {
      throw refuse("has a % that is followed by no d or c");
    }
    i = end;
  }
  if (!has_frame) throw refuse("names no frame");
  if (has_axis != (options_.pictures == ClipOptions::Pictures::kFlow)) {
    throw refuse(has_axis ? "has a %c, which is for optical flow" : "has no %c for the x and y of optical flow");
  }
  return name;
}

std::vector<int64_t> ClipMaker::Offsets(const Clip& clip, RandomStream& random) const {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound))); };
  if (options_.dialect == ClipOptions::Dialect::kVolume) {
    if (!options_.jitter) return {clip.number - 1};
    const int64_t free = clip.number - options_.frames * options_.step;
    if (free < 0) {
      throw Error(ErrorKind::kBadData,
                  StrCat("the video has ", clip.number, " frames, a clip needs ", options_.frames * options_.step));
    }
    return {options_.phase == TRAIN ? below(free + 1) : 0};
  }
  const int64_t part = clip.number / options_.segments;
  const int64_t free = part - options_.frames;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < options_.segments; ++i) {
    const int64_t within = free < 0 ? 0 : options_.phase == TRAIN ? below(free + 1) : (free + 1) / 2;
    offsets.push_back(free < 0 ? 0 : within + i * part);
  }
  return offsets;
}

// The picture as scratch.pictures.image, resized.
void ClipMaker::ReadFrame(const Clip& clip, int64_t frame, char axis, SampleScratch& scratch) const {
  const std::string name = StrCat(options_.prefix, clip.folder, "/", FrameName(frame, axis));
  const bool is_color = options_.pictures == ClipOptions::Pictures::kColor;
  PictureScratch& p = scratch.pictures;
  try {
    scratch.record.decoder.Decode(ReadFile(options_.base / name),
                                  {.channels = is_color ? ImageChannels::kColor : ImageChannels::kGrey}, p.image);
  } catch (const Error& error) {
    throw Error(error.kind(), {}, StrCat("\"", Printable(name), "\": ", error.text()), error.hint());
  }
  if (options_.height > 0 && (p.image.height != options_.height || p.image.width != options_.width)) {
    ResizeImage(p.image, options_.width, options_.height, Interpolation::kLinear, p.changed);
    std::swap(p.image, p.changed);
  }
}

CropSize ClipMaker::Load(const Clip& clip, const std::vector<int64_t>& offsets, SampleScratch& scratch) const {
  PictureScratch& p = scratch.pictures;
  const bool is_volume = options_.dialect == ClipOptions::Dialect::kVolume;
  const bool is_flow = options_.pictures == ClipOptions::Pictures::kFlow;
  const bool by_channel = is_volume || options_.channel_first;
  const int64_t colours = planes_of_frame();
  // A volume's `frames` are those it has; a segment's are those it spans.
  const int64_t frames = is_volume ? options_.frames : options_.frames / options_.step;
  CropSize size;
  int64_t plane = 0;
  for (size_t segment = 0; segment < offsets.size(); ++segment) {
    for (int64_t f = 0; f < frames; ++f) {
      for (int64_t picture = 0; picture < (is_flow ? 2 : 1); ++picture) {
        ReadFrame(clip, offsets[segment] + 1 + f * options_.step, picture == 0 ? 'x' : 'y', scratch);
        if (size.height == 0) {
          size = {p.image.height, p.image.width};
          plane = size.height * size.width;
          const Size planes = Size(static_cast<int64_t>(offsets.size())) * frames * colours;
          if (planes > kClipBytes / plane) {
            throw Error(ErrorKind::kBadData, StrCat("a clip of ", planes.value(), " pictures of ", plane,
                                                    " pixels is larger than ", BytesText(kClipBytes)));
          }
          p.planes.resize(static_cast<size_t>((planes * plane).value()));
        }
        if (p.image.height != size.height || p.image.width != size.width) {
          throw Error(ErrorKind::kBadData,
                      StrCat("frame ", offsets[segment] + 1 + f * options_.step, " is ", p.image.height, "x",
                             p.image.width, " (height x width), the first ", size.height, "x", size.width));
        }
        for (int64_t c = 0; c < p.image.channels; ++c) {
          const int64_t colour = is_flow ? picture : c;
          const int64_t at = static_cast<int64_t>(segment) * frames * colours +
                             (by_channel ? colour * frames + f : f * colours + colour);
          uint8_t* to = p.planes.data() + at * plane;
          for (int64_t i = 0; i < plane; ++i) to[i] = p.image.pixels[static_cast<size_t>(i * p.image.channels + c)];
        }
      }
    }
  }
  return size;
}

Shape ClipMaker::ShapeOf(const CropSize& size) const {
  const int64_t height = options_.crop_size > 0 ? options_.crop_size : size.height;
  const int64_t width = options_.crop_size > 0 ? options_.crop_size : size.width;
  if (options_.dialect == ClipOptions::Dialect::kVolume) {
    return {planes_of_frame(), options_.frames, height, width};
  }
  const int64_t frames = options_.frames / options_.step;
  return {(Size(options_.segments) * frames * planes_of_frame()).value(), height, width};
}

Shape ClipMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  const Clip& clip = clips_[static_cast<size_t>(record)];
  RandomStream random(options_.seed, 0);
  return ShapeOf(Load(clip, Offsets(clip, random), scratch));
}

ClipMaker::Cut ClipMaker::CutOf(const CropSize& size, const SampleId& id, RandomStream& random) const {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound))); };
  Cut cut{.window = {0, 0, size.width, size.height}};
  cut.mirror = options_.mirror && IsMirrored(options_.seed, id, kClipMirrorPosition);
  if (options_.crop_size == 0) return cut;
  CropSize crop{options_.crop_size, options_.crop_size};
  if (size.height < crop.height || size.width < crop.width) {
    throw Error(ErrorKind::kBadData, StrCat("a crop of ", crop.height, " pixels does not fit frames of ", size.height,
                                            "x", size.width, " (height x width)"));
  }
  const bool is_train = options_.phase == TRAIN;
  if (is_train && options_.multi_scale) {
    const std::vector<CropSize> sizes = CropSizes(size, options_);
    crop = sizes[static_cast<size_t>(below(static_cast<int64_t>(sizes.size())))];
  }
  const int64_t free_y = size.height - crop.height;
  const int64_t free_x = size.width - crop.width;
  if (crop.height < 1 || crop.width < 1 || free_y < 0 || free_x < 0) {
    throw Error(ErrorKind::kBadData, StrCat("scale_ratios make a crop of ", crop.height, "x", crop.width,
                                            " from frames of ", size.height, "x", size.width, " (height x width)"));
  }
  Corner place{free_y / 2, free_x / 2};
  if (is_train && options_.fix_crop) {
    const Corner& corner = kCorners[random.Below(options_.more_fix_crop ? std::size(kCorners) : kFewCorners)];
    place = {corner.y * (free_y / 4), corner.x * (free_x / 4)};
  } else if (is_train) {
    place.y = below(free_y + 1);
    place.x = below(free_x + 1);
  }
  cut.window = {place.x, place.y, crop.width, crop.height};
  return cut;
}

void ClipMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& shape, SampleScratch& scratch,
                     std::span<float> data, std::span<float> label) const {
  const Clip& clip = clips_[static_cast<size_t>(record)];
  RandomStream random(options_.seed, StreamOf(id));
  const CropSize size = Load(clip, Offsets(clip, random), scratch);
  if (ShapeOf(size) != shape) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("its sample is ", ShapeOf(size).ToString(), ", the first was ", shape.ToString()),
                "all samples of a layer have one shape: set new_height and new_width, or crop_size");
  }
  Write(size, CutOf(size, id, random), shape, scratch, data);
  label[0] = static_cast<float>(clip.label);
}

void ClipMaker::Write(const CropSize& size, const Cut& cut, const Shape& shape, SampleScratch& scratch,
                      std::span<float> out) const {
  const bool is_volume = options_.dialect == ClipOptions::Dialect::kVolume;
  const int64_t height = shape[shape.rank() - 2];
  const int64_t width = shape[shape.rank() - 1];
  const int64_t planes = shape.Count(0, shape.rank() - 2);
  const int64_t frames = is_volume ? shape[1] : 1;
  const PixelMean& mean = options_.mean;
  const int64_t channels = is_volume ? shape[0] : planes;
  if (mean.values.size() > 1 && channels % static_cast<int64_t>(mean.values.size()) != 0) {
    throw Error(ErrorKind::kBadData, StrCat("transform_param.mean_value has ", mean.values.size(),
                                            " values, which do not divide the clip's ", channels, " channels"));
  }
  const bool has_mean_image = mean.shape.rank() > 0;
  const Shape whole =
      is_volume ? Shape{channels, frames, size.height, size.width} : Shape{channels, size.height, size.width};
  const bool mean_has_frames = mean.shape == whole;
  if (has_mean_image && !mean_has_frames && mean.shape != Shape{channels, size.height, size.width}) {
    throw Error(ErrorKind::kBadData, StrCat("the mean image has shape ", mean.shape.ToString(), ", the clip ",
                                            whole.ToString(), " before its crop"));
  }
  PictureScratch& p = scratch.pictures;
  const bool resizes = cut.window.width != width || cut.window.height != height;
  // With crops of many sizes a mean image's place is its corner, as in temporal segment networks.
  const int64_t mean_y = options_.multi_scale ? 0 : cut.window.y;
  const int64_t mean_x = options_.multi_scale ? 0 : cut.window.x;
  const int64_t area = size.height * size.width;
  float* to = out.data();
  for (int64_t plane = 0; plane < planes; ++plane) {
    p.image.Resize(size.width, size.height, 1);
    std::copy_n(p.planes.data() + plane * area, area, p.image.pixels.data());
    if (resizes) ResizeWindow(p.image, cut.window, width, height, Interpolation::kLinear, p.changed);
    const Image& from = resizes ? p.changed : p.image;
    const int64_t from_y = resizes ? 0 : cut.window.y;
    const int64_t from_x = resizes ? 0 : cut.window.x;
    const float value = mean.ValueOf(plane / frames);
    const int64_t mean_plane = mean_has_frames ? plane : plane / frames;
    const bool turns = options_.flow_signs && cut.mirror && plane % 2 == 0;
    for (int64_t y = 0; y < height; ++y, to += width) {
      for (int64_t x = 0; x < width; ++x) {
        const int pixel = from.pixels[static_cast<size_t>((y + from_y) * from.width + x + from_x)];
        const int64_t mean_at = (mean_plane * size.height + y + mean_y) * size.width + x + mean_x;
        const float subtracted = has_mean_image ? mean.image[static_cast<size_t>(mean_at)] : value;
        to[cut.mirror ? width - 1 - x : x] =
            (static_cast<float>(turns ? 255 - pixel : pixel) - subtracted) * options_.scale;
      }
    }
  }
}

}  // namespace moka
