// Frames are decoded into planes of bytes, one for each colour of a frame or of an axis of a flow, then cut and
// mirrored alike and written as floats.
#include "data/pipeline/frame_stack.h"
#include "data/transform/pixel_mean.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/file.h"
#include "core/size.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr int64_t kClipBytes = int64_t{4} << 30U;

// Crops of a multi-scale sample: sides that are a part of the shorter side each, not more than max_distort ratios
// apart; a side that is nearly the crop's is the crop's.
std::vector<CropSize> CropSizes(const CropSize& size, const FrameOptions& options) {
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

bool IsDeepPng(std::string_view file) {
  constexpr size_t kDepth = 24;  // of the file, in the header chunk
  return file.size() > kDepth && file.starts_with("\x89PNG") && file[kDepth] == 16;
}

}  // namespace

void SetCornersAndScales(const LayerParameter& layer, const TransformationParameter& transform, FrameOptions& frames) {
  const auto refuse = [&](std::string_view field, std::string_view text) {
    throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", text));
  };
  frames.turned = transform.is_flow() ? 2 : 0;
  frames.fix_crop = transform.fix_crop();
  frames.more_fix_crop = transform.more_fix_crop();
  frames.multi_scale = transform.multi_scale();
  frames.scale_ratios.assign(transform.scale_ratios().begin(), transform.scale_ratios().end());
  frames.max_distort = transform.max_distort();
  for (const float ratio : frames.scale_ratios) {
    if (!(ratio > 0 && ratio <= 1)) refuse("transform_param.scale_ratios", "scale ratios must be in (0, 1]");
  }
  if (frames.max_distort < 0) refuse("transform_param.max_distort", "max_distort must not be negative");
}

std::vector<ListedClip> ReadClipList(const std::filesystem::path& list, std::string_view number, ClipLabel label) {
  std::vector<ListedClip> clips;
  const std::string_view last = label == ClipLabel::kFolder ? "folder_of_labels" : "label";
  for (const ListLine& line : ReadListLines(list)) {
    if (line.words.size() != 3) {
      throw Error(ErrorKind::kBadData, SourcePlace{.file = list.string(), .line = line.number},
                  StrCat("expected \"folder ", number, " ", last, "\", found ", line.words.size(), " words: \"",
                         Printable(Join(line.words, " ")), "\""));
    }
    clips.push_back({.folder = line.words[0],
                     .number = NumberOf(line.words[1], "the frame number", list, line.number),
                     .label = label == ClipLabel::kNumber ? LabelOf(line.words[2], list, line.number) : 0,
                     .label_folder = label == ClipLabel::kFolder ? line.words[2] : std::string{},
                     .line = line.number});
  }
  return clips;
}

std::string FrameName(const std::string& pattern, int64_t frame, char axis, bool is_flow) {
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
  if (has_axis != is_flow) {
    throw refuse(has_axis ? "has a %c, which is for optical flow" : "has no %c for the x and y of optical flow");
  }
  return name;
}

void ReadFrame(const FrameOptions& options, const std::string& name, SampleScratch& scratch) {
  PictureScratch& p = scratch.pictures;
  try {
    scratch.record.clock.Enter(Stage::kRead);
    const std::string file = ReadFile(options.base / name);
    scratch.record.clock.Enter(Stage::kDecode);
    if (options.refuses_deep && IsDeepPng(file)) {
      throw Error(ErrorKind::kBadData, {}, "the picture has 16 bits a channel, which this layer cannot read",
                  "convert it to 8 bits");
    }
    scratch.record.decoder.Decode(file, {.channels = options.is_color ? ImageChannels::kColor : ImageChannels::kGray},
                                  p.image);
  } catch (const Error& error) {
    throw Error(error.kind(), {}, StrCat("\"", Printable(name), "\": ", error.text()), error.hint());
  }
  if (options.height > 0 && (p.image.height != options.height || p.image.width != options.width)) {
    ResizeImage(p.image, options.width, options.height, Interpolation::kLinear, p.changed);
    std::swap(p.image, p.changed);
  }
}

CropSize LoadFrames(const FrameOptions& options, const StackLayout& layout, const FrameNamer& name,
                    SampleScratch& scratch) {
  PictureScratch& p = scratch.pictures;
  const int64_t channels = options.is_color ? 3 : 1;
  const int64_t colors = layout.pictures * channels;
  CropSize size;
  int64_t plane = 0;
  for (int64_t segment = 0; segment < layout.segments; ++segment) {
    for (int64_t f = 0; f < layout.frames; ++f) {
      for (int64_t picture = 0; picture < layout.pictures; ++picture) {
        const std::string file = name(segment, f, picture);
        ReadFrame(options, file, scratch);
        if (size.height == 0) {
          size = {p.image.height, p.image.width};
          plane = size.height * size.width;
          const Size planes = Size(layout.segments) * layout.frames * colors;
          if (planes > kClipBytes / plane) {
            throw Error(ErrorKind::kBadData, StrCat("a clip of ", planes.value(), " pictures of ", plane,
                                                    " pixels is larger than ", BytesText(kClipBytes)));
          }
          p.planes.resize(static_cast<size_t>((planes * plane).value()));
        }
        if (p.image.height != size.height || p.image.width != size.width) {
          throw Error(ErrorKind::kBadData,
                      StrCat("\"", Printable(file), "\" is ", p.image.height, "x", p.image.width,
                             " (height x width), the first picture ", size.height, "x", size.width));
        }
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t color = picture * channels + c;
          const int64_t at =
              segment * layout.frames * colors + (layout.by_channel ? color * layout.frames + f : f * colors + color);
          uint8_t* to = p.planes.data() + at * plane;
          for (int64_t i = 0; i < plane; ++i) to[i] = p.image.pixels[static_cast<size_t>(i * channels + c)];
        }
      }
    }
  }
  return size;
}

FrameCut CutFrames(const FrameOptions& options, const CropSize& size, bool mirror, RandomStream& random) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound))); };
  FrameCut cut{.window = {0, 0, size.width, size.height}, .mirror = mirror};
  if (options.crop_size == 0) return cut;
  CropSize crop{options.crop_size, options.crop_size};
  if (size.height < crop.height || size.width < crop.width) {
    throw Error(ErrorKind::kBadData, StrCat("a crop of ", crop.height, " pixels does not fit frames of ", size.height,
                                            "x", size.width, " (height x width)"));
  }
  const bool is_train = options.phase == TRAIN;
  if (is_train && options.multi_scale) {
    const std::vector<CropSize> sizes = CropSizes(size, options);
    crop = sizes[static_cast<size_t>(below(static_cast<int64_t>(sizes.size())))];
  }
  const int64_t free_y = size.height - crop.height;
  const int64_t free_x = size.width - crop.width;
  if (crop.height < 1 || crop.width < 1 || free_y < 0 || free_x < 0) {
    throw Error(ErrorKind::kBadData, StrCat("scale_ratios make a crop of ", crop.height, "x", crop.width,
                                            " from frames of ", size.height, "x", size.width, " (height x width)"));
  }
  Corner place{free_y / 2, free_x / 2};
  if (is_train && options.fix_crop) {
    const Corner& corner = kCorners[random.Below(options.more_fix_crop ? std::size(kCorners) : kFewCorners)];
    place = options.whole_corners ? Corner{corner.y / 2 * (free_y / 2), corner.x / 2 * (free_x / 2)}
                                  : Corner{corner.y * (free_y / 4), corner.x * (free_x / 4)};
  } else if (is_train) {
    place.y = below(free_y + 1);
    place.x = below(free_x + 1);
  }
  cut.window = {place.x, place.y, crop.width, crop.height};
  return cut;
}

void WriteFrames(const FrameOptions& options, const CropSize& size, const FrameCut& cut, const Shape& shape,
                 std::span<const float> factors, SampleScratch& scratch, std::span<float> out) {
  scratch.record.clock.Enter(Stage::kTransform);
  const bool is_volume = shape.rank() == 4;
  const int64_t height = shape[shape.rank() - 2];
  const int64_t width = shape[shape.rank() - 1];
  const int64_t planes = shape.Count(0, shape.rank() - 2);
  const int64_t frames = is_volume ? shape[1] : 1;
  const PixelMean& mean = options.mean;
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
  // If crops are of many sizes, the mean image is read from its corner, as in temporal segment networks.
  const int64_t mean_y = options.multi_scale ? 0 : cut.window.y;
  const int64_t mean_x = options.multi_scale ? 0 : cut.window.x;
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
    const float factor = factors.empty() ? 1.0F : factors[static_cast<size_t>(plane) % factors.size()];
    const int64_t mean_plane = mean_has_frames ? plane : plane / frames;
    const bool turns = options.turned > 0 && cut.mirror && plane % options.turned == 0;
    for (int64_t y = 0; y < height; ++y, to += width) {
      for (int64_t x = 0; x < width; ++x) {
        const int pixel = from.pixels[static_cast<size_t>((y + from_y) * from.width + x + from_x)];
        const int64_t mean_at = (mean_plane * size.height + y + mean_y) * size.width + x + mean_x;
        const float subtracted = has_mean_image ? mean.image[static_cast<size_t>(mean_at)] : value;
        auto value_of_pixel = static_cast<float>(turns ? 255 - pixel : pixel);
        if (options.flow_bound > 0) {
          value_of_pixel = value_of_pixel / 255.0F * 2 * options.flow_bound - options.flow_bound;
        }
        const float seen = std::min(value_of_pixel * factor, 255.0F);
        to[cut.mirror ? width - 1 - x : x] = (seen - subtracted) * options.scale;
      }
    }
  }
}

}  // namespace moka
