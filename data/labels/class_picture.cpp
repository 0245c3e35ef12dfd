// A palette's indices and the samples of grey pictures are the classes; a decoder that made colours of them would lose
// the numbers.
#include "data/labels/class_picture.h"

#include <algorithm>
#include <atomic>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/image/image_formats.h"
#include "data/labels/sample_writing.h"

namespace moka {
namespace {

void TellOnce(std::atomic<bool>& has_told, std::string_view name, std::string_view text) {
  if (has_told || has_told.exchange(true)) return;
  LogWarning(StrCat("label picture ", name, " ", text, " (this is said once)"));
}

// Copies the samples of a PNG as they are stored, for one with one channel that is not a byte of grey a pixel.
void CopySamples(std::string_view file, Image& numbers) {
  const ValueMask mask = ReadValueMask(file);
  const auto most = std::ranges::max_element(mask.values);
  if (*most > UINT8_MAX) {
    throw Error(ErrorKind::kBadData, {}, StrCat("the label picture has class ", *most, ", at most 255 can be"),
                "write the classes into a PNG of 8 bits");
  }
  numbers.Resize(mask.width, mask.height, 1);
  std::ranges::transform(mask.values, numbers.pixels.begin(),
                         [](uint16_t value) { return static_cast<uint8_t>(value); });
}

bool HasColors(const Image& image) {
  for (size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    if (image.pixels[i] != image.pixels[i + 1] || image.pixels[i] != image.pixels[i + 2]) return true;
  }
  return false;
}

}  // namespace

void DecodeClassPicture(std::string_view file, std::string_view name, ImageDecoder& decoder, Image& numbers) {
  static std::atomic<bool> has_told_palette = false;
  static std::atomic<bool> has_told_bits = false;
  static std::atomic<bool> has_told_colors = false;
  const ImageHeader header = ReadImageHeader(file);
  if (header.format != ImageHeader::Format::kPng) {
    return decoder.Decode(file, {.channels = ImageChannels::kGray}, numbers);
  }
  constexpr size_t kDepthAt = 24;  // in the header chunk, which stands first; the colour type follows
  constexpr uint32_t kGrayType = 0;
  constexpr uint32_t kPaletteType = 3;
  const BoundedBytes bytes(file);
  const uint32_t depth = bytes.At(kDepthAt);
  const uint32_t type = bytes.At(kDepthAt + 1);
  if (type == kPaletteType) {
    CopySamples(file, numbers);
    TellOnce(has_told_palette, name, "has a palette: its numbers are the classes, not the brightness of its colours");
  } else if (type == kGrayType && depth > 8) {
    CopySamples(file, numbers);
  } else if (type == kGrayType) {
    decoder.Decode(file, {}, numbers);
    if (depth < 8) {
      TellOnce(
          has_told_bits, name,
          StrCat("has ", depth, " bits a pixel, whose most is white: the classes are 0..255, as Caffe reads them"));
    }
  } else {
    decoder.Decode(file, {}, numbers);
    if (HasColors(numbers)) {
      TellOnce(has_told_colors, name, "has colours without a palette: the classes are their brightness");
    }
    ConvertChannels(1, numbers);
  }
}

}  // namespace moka
