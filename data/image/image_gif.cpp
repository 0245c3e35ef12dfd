// GIF files through giflib: the first picture, on the canvas. What it does not cover has the background's colour;
// transparent pixels have their palette's.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

struct Bytes {
  std::string_view left;
};

int ReadBytes(GifFileType* gif, GifByteType* to, int count) {
  auto& bytes = *static_cast<Bytes*>(gif->UserData);
  const size_t n = std::min(bytes.left.size(), static_cast<size_t>(std::max(count, 0)));
  std::memcpy(to, bytes.left.data(), n);
  bytes.left.remove_prefix(n);
  return static_cast<int>(n);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;

Error GifError(int code) {
  const char* const text = GifErrorString(code);
  return CannotDecode("GIF", text == nullptr ? "damaged" : text);
}

// Up to the first picture's description, over whatever comes before.
void FindPicture(GifFileType* gif) {
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif, &type) == GIF_ERROR) throw GifError(gif->Error);
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    if (type == TERMINATE_RECORD_TYPE) throw CannotDecode("GIF", "it holds no picture");
    int code = 0;
    GifByteType* block = nullptr;
    if (type == EXTENSION_RECORD_TYPE && DGifGetExtension(gif, &code, &block) == GIF_ERROR) throw GifError(gif->Error);
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) throw GifError(gif->Error);
    }
  }
  if (DGifGetImageDesc(gif) == GIF_ERROR) throw GifError(gif->Error);
}

// All 256 entries as B,G,R; those that the map lacks are black.
using Palette = std::array<std::array<uint8_t, 3>, 256>;
Palette PaletteOf(const ColorMapObject* map) {
  Palette palette{};
  for (int i = 0; map != nullptr && i < std::min(map->ColorCount, 256); ++i) {
    const GifColorType& color = map->Colors[i];
    palette[static_cast<size_t>(i)] = {color.Blue, color.Green, color.Red};
  }
  return palette;
}

// Whether another picture follows the one that was read.
bool HasMoreFrames(GifFileType* gif) {
  GifRecordType type = UNDEFINED_RECORD_TYPE;
  while (DGifGetRecordType(gif, &type) == GIF_OK && type == EXTENSION_RECORD_TYPE) {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) return false;
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) return false;
    }
  }
  return type == IMAGE_DESC_RECORD_TYPE;
}

// The picture's rows in the order in which an interlaced file has them: (first, distance) of four passes.
constexpr std::array<std::pair<int, int>, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};

}  // namespace

void DecodeGif(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out,
               ImageLosses& losses) {
  Bytes bytes{file};
  int code = 0;
  const GifFile gif(DGifOpen(&bytes, ReadBytes, &code));
  if (gif == nullptr) throw GifError(code);
  FindPicture(gif.get());
  const GifImageDesc& picture = gif->Image;
  if (picture.Left < 0 || picture.Top < 0 || picture.Width < 1 || picture.Height < 1 ||
      picture.Left + picture.Width > header.width || picture.Top + picture.Height > header.height) {
    throw CannotDecode("GIF", StrCat("its picture of ", picture.Width, "x", picture.Height, " at ", picture.Left, ",",
                                     picture.Top, " does not fit the canvas of ", header.width, "x", header.height));
  }
  const ColorMapObject* const map = picture.ColorMap != nullptr ? picture.ColorMap : gif->SColorMap;
  if (map == nullptr) throw CannotDecode("GIF", "it has no palette");
  const Palette palette = PaletteOf(map);
  const auto background = PaletteOf(gif->SColorMap)[static_cast<size_t>(gif->SBackGroundColor & 0xFF)];
  out.Resize(header.width, header.height, 3);
  for (size_t i = 0; i < out.pixels.size(); ++i) out.pixels[i] = background[i % 3];
  std::vector<GifByteType> line(static_cast<size_t>(picture.Width));
  const auto read_row = [&](int y) {
    if (DGifGetLine(gif.get(), line.data(), picture.Width) == GIF_ERROR) return false;
    uint8_t* to = out.pixels.data() + ((picture.Top + y) * header.width + picture.Left) * 3;
    for (const GifByteType index : line) to = std::ranges::copy(palette[index], to).out;
    return true;
  };
  for (const auto& [first, step] : kPasses) {
    const int begin = picture.Interlace ? first : 0;
    for (int y = begin; y < picture.Height; y += picture.Interlace ? step : 1) {
      if (read_row(y)) continue;
      if (damage == DecodeOptions::Damage::kStrict) throw GifError(gif->Error);
      return;
    }
    if (!picture.Interlace) break;
  }
  if (HasMoreFrames(gif.get())) Mark(ImageLoss::kFrames, losses);
}

}  // namespace moka
