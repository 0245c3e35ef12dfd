// PNG files through libspng, row by row.
#include <spng.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/text.h"
#include "data/image/image_formats.h"

namespace moka {
namespace {

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

Context NewContext(int flags) {
  Context context(spng_ctx_new(flags));
  if (context == nullptr) throw Error(ErrorKind::kUnavailable, "libspng: no memory for a context");
  return context;
}

void CheckPng(int code) {
  if (code != SPNG_OK) throw CannotDecode("PNG", code == SPNG_IO_EOF ? "the file ends too early" : spng_strerror(code));
}

void CheckEncoded(int code) {
  if (code != SPNG_OK) throw Error(ErrorKind::kBadData, StrCat("cannot encode the PNG: ", spng_strerror(code)));
}

void SwapRedAndBlue(Image& image) {
  uint8_t* const end = image.pixels.data() + image.pixels.size();
  for (uint8_t* pixel = image.pixels.data(); pixel != end; pixel += 3) std::swap(pixel[0], pixel[2]);
}

// Rows land at their own place in `pixels`, so that the passes of an interlaced picture add up.
void DecodeRows(spng_ctx* context, int format, DecodeOptions::Damage damage, std::vector<uint8_t>& pixels,
                size_t row_bytes, int flags = 0) {
  const bool strict = damage == DecodeOptions::Damage::kStrict;
  CheckPng(spng_decode_image(context, nullptr, 0, format, SPNG_DECODE_PROGRESSIVE | flags));
  bool any = false;
  int code = SPNG_OK;
  while (code == SPNG_OK) {
    spng_row_info row = {};
    code = spng_get_row_info(context, &row);
    if (code == SPNG_OK) code = spng_decode_row(context, pixels.data() + row.row_num * row_bytes, row_bytes);
    any = any || code == SPNG_OK || code == SPNG_EOI;
  }
  if (code == SPNG_EOI) code = strict ? spng_decode_chunks(context) : SPNG_OK;  // what follows the pixels is read too
  if (strict || !any) CheckPng(code);
}

// libspng reads blocks of 8 KiB and drops one that is cut. So that it sees all there is, the chunk in which the file
// ends is made shorter; its checksum is not looked at.
std::string WithShorterLastChunk(std::string_view file) {
  constexpr size_t kSignature = 8;
  constexpr size_t kChunkHeader = 8;
  const BoundedBytes bytes(file);
  std::string shorter(file);
  for (size_t at = kSignature; at + kChunkHeader < file.size();) {
    const size_t length = bytes.Big(at, 4);
    const size_t left = file.size() - at - kChunkHeader;
    if (length > left) {
      for (size_t k = 0; k < 4; ++k) shorter[at + k] = static_cast<char>(left >> (24 - 8 * k) & 0xFFU);
      return shorter.append(4, '\0');
    }
    at += kChunkHeader + length + 4;
  }
  return shorter;
}

// `file` must stay where it is.
Context OpenPng(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, spng_ihdr& ihdr) {
  // Text and profiles are never used; a bomb among them may not take more than this.
  constexpr size_t kMetadataBytes = size_t{16} << 20U;
  const bool strict = damage == DecodeOptions::Damage::kStrict;
  Context context = NewContext(0);
  CheckPng(
      spng_set_image_limits(context.get(), static_cast<uint32_t>(header.width), static_cast<uint32_t>(header.height)));
  CheckPng(spng_set_chunk_limits(context.get(), kMetadataBytes, kMetadataBytes));
  // Chunks that no pixel depends on are left out when their checksum is wrong.
  CheckPng(spng_set_crc_action(context.get(), strict ? SPNG_CRC_ERROR : SPNG_CRC_USE, SPNG_CRC_DISCARD));
  CheckPng(spng_set_png_buffer(context.get(), file.data(), file.size()));
  CheckPng(spng_get_ihdr(context.get(), &ihdr));
  return context;
}

// Whether a chunk of the name stands before the pixels.
bool HasChunkBeforePixels(std::string_view file, std::string_view name) {
  const BoundedBytes bytes(file);
  for (size_t at = 8; at + 8 <= file.size(); at += size_t{bytes.Big(at, 4)} + 12) {
    const std::string_view chunk = file.substr(at + 4, 4);
    if (chunk == "IDAT") return false;
    if (chunk == name) return true;
  }
  return false;
}

// Colours of pixels that may be transparent: B,G,R as they are stored. Returns whether any is.
bool DecodeTransparent(spng_ctx* context, DecodeOptions::Damage damage, Image& out) {
  const size_t row_bytes = static_cast<size_t>(out.width) * 4;
  std::vector<uint8_t> pixels(row_bytes * static_cast<size_t>(out.height), uint8_t{255});
  DecodeRows(context, SPNG_FMT_RGBA8, damage, pixels, row_bytes, SPNG_DECODE_TRNS);
  bool is_any = false;
  uint8_t* to = out.pixels.data();
  for (size_t i = 0; i < pixels.size(); i += 4, to += 3) {
    to[0] = pixels[i + 2];
    to[1] = pixels[i + 1];
    to[2] = pixels[i];
    is_any = is_any || pixels[i + 3] != 255;
  }
  return is_any;
}

}  // namespace

void DecodePng(std::string_view file, const ImageHeader& header, DecodeOptions::Damage damage, Image& out,
               ImageLosses& losses) {
  const bool strict = damage == DecodeOptions::Damage::kStrict;
  std::string repaired;
  if (!strict) file = repaired = WithShorterLastChunk(file);
  spng_ihdr ihdr = {};
  const Context context = OpenPng(file, header, damage, ihdr);
  const bool gray = ihdr.color_type == SPNG_COLOR_TYPE_GRAYSCALE;
  out.Resize(header.width, header.height, gray ? 1 : 3);
  if (!strict) std::fill(out.pixels.begin(), out.pixels.end(), uint8_t{0});
  const auto row_bytes = static_cast<size_t>(header.width * out.channels);
  if (ihdr.bit_depth == 16) Mark(ImageLoss::kDepth, losses);
  if (HasChunkBeforePixels(file, "acTL")) Mark(ImageLoss::kFrames, losses);
  const bool has_named_color = HasChunkBeforePixels(file, "tRNS");
  if (gray && has_named_color) Mark(ImageLoss::kTransparency, losses);
  const bool has_alpha = ihdr.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
                         ihdr.color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA || has_named_color;
  if (!gray && has_alpha) {
    if (DecodeTransparent(context.get(), damage, out)) Mark(ImageLoss::kTransparency, losses);
    return;
  }
  if (gray && ihdr.bit_depth == 16) {  // libspng narrows colour alone; raw samples begin with their high byte
    std::vector<uint8_t> samples(out.pixels.size() * 2);
    DecodeRows(context.get(), SPNG_FMT_RAW, damage, samples, row_bytes * 2);
    for (size_t i = 0; i < out.pixels.size(); ++i) out.pixels[i] = samples[i * 2];
    return;
  }
  DecodeRows(context.get(), gray ? SPNG_FMT_G8 : SPNG_FMT_RGB8, damage, out.pixels, row_bytes);
  if (!gray) SwapRedAndBlue(out);
}

void DecodePngSamples(std::string_view file, const ImageHeader& header, std::vector<uint16_t>& samples) {
  constexpr auto kStrict = DecodeOptions::Damage::kStrict;
  spng_ihdr ihdr = {};
  const Context context = OpenPng(file, header, kStrict, ihdr);
  if (ihdr.color_type != SPNG_COLOR_TYPE_GRAYSCALE && ihdr.color_type != SPNG_COLOR_TYPE_INDEXED) {
    throw CannotDecode("PNG", "it has colours or transparency, where one channel (grey or a palette) is expected");
  }
  const auto width = static_cast<size_t>(header.width);
  const auto height = static_cast<size_t>(header.height);
  const size_t depth = ihdr.bit_depth;
  const size_t row_bytes = (width * depth + 7) / 8;
  std::vector<uint8_t> rows(row_bytes * height);
  DecodeRows(context.get(), SPNG_FMT_RAW, kStrict, rows, row_bytes);
  samples.resize(width * height);
  for (size_t y = 0; y < height; ++y) {
    const uint8_t* const row = rows.data() + y * row_bytes;
    for (size_t x = 0; x < width; ++x) {
      uint16_t& sample = samples[y * width + x];
      if (depth == 16) {  // high byte first
        sample = static_cast<uint16_t>(row[2 * x] << 8U | row[2 * x + 1]);
      } else {
        const size_t bit = x * depth;
        sample = static_cast<uint16_t>(row[bit / 8] >> (8 - depth - bit % 8) & ((1U << depth) - 1));
      }
    }
  }
}

bool IsGrayBytePng(std::string_view file) {
  constexpr size_t kDepthAt = 24;  // in the header chunk, which stands first; the colour type follows
  const BoundedBytes bytes(file);
  return bytes.At(kDepthAt) == 8 && bytes.At(kDepthAt + 1) == SPNG_COLOR_TYPE_GRAYSCALE;
}

std::string EncodePng(const Image& image) {
  Require(image.width > 0 && image.height > 0, "an image to encode is not empty");
  const Context context = NewContext(SPNG_CTX_ENCODER);
  const bool gray = image.channels == 1;
  spng_ihdr ihdr = {.width = static_cast<uint32_t>(image.width),
                    .height = static_cast<uint32_t>(image.height),
                    .bit_depth = 8,
                    .color_type = static_cast<uint8_t>(gray ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR),
                    .compression_method = 0,
                    .filter_method = 0,
                    .interlace_method = SPNG_INTERLACE_NONE};
  CheckEncoded(spng_set_ihdr(context.get(), &ihdr));
  // As OpenCV writes them: on a photograph all filters at the default level save 14%, and take eight times as long.
  constexpr int kRunLengths = 3;  // Z_RLE
  CheckEncoded(spng_set_option(context.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_SUB));
  CheckEncoded(spng_set_option(context.get(), SPNG_IMG_COMPRESSION_LEVEL, 1));
  CheckEncoded(spng_set_option(context.get(), SPNG_IMG_COMPRESSION_STRATEGY, kRunLengths));
  CheckEncoded(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1));
  const Image* source = &image;
  Image swapped;
  if (!gray) {
    swapped = image;
    SwapRedAndBlue(swapped);
    source = &swapped;
  }
  CheckEncoded(spng_encode_image(context.get(), source->pixels.data(), source->pixels.size(), SPNG_FMT_PNG,
                                 SPNG_ENCODE_FINALIZE));
  size_t bytes = 0;
  int code = SPNG_OK;
  const std::unique_ptr<void, decltype(&std::free)> png(spng_get_png_buffer(context.get(), &bytes, &code), &std::free);
  CheckEncoded(code);
  return {static_cast<const char*>(png.get()), bytes};
}

}  // namespace moka
