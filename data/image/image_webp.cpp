// WebP files, lossy and lossless, through libwebp.
#include <webp/decode.h>

#include "data/image/image_formats.h"

namespace moka {
namespace {

const char* ReasonOf(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "a feature that libwebp does not know";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return "the file ends too early";
    default: return "damaged";
  }
}

}  // namespace

void DecodeWebp(std::string_view file, const ImageHeader& header, Image& out, ImageLosses& losses) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(file.data());
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw Error(ErrorKind::kUnavailable, "libwebp: another version's headers");
  if (const VP8StatusCode code = WebPGetFeatures(bytes, file.size(), &config.input); code != VP8_STATUS_OK) {
    throw CannotDecode("WebP", ReasonOf(code));
  }
  if (config.input.has_animation != 0) throw CannotDecode("WebP", "it is an animation, expected one picture");
  if (config.input.width != header.width || config.input.height != header.height) {
    throw CannotDecode("WebP", "its headers give two sizes");
  }
  if (config.input.has_alpha != 0) Mark(ImageLoss::kTransparency, losses);
  out.Resize(header.width, header.height, 3);
  config.output.colorspace = MODE_BGR;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {out.pixels.data(), static_cast<int>(header.width * 3), out.pixels.size()};
  const VP8StatusCode code = WebPDecode(bytes, file.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (code != VP8_STATUS_OK) throw CannotDecode("WebP", ReasonOf(code));
}

}  // namespace moka
