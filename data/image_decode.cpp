// ImageDecoder: JPEG through TurboJPEG, the other formats by their own files; and JPEG's encoder.
#include <turbojpeg.h>

#include "core/error.h"
#include "core/text.h"
#include "data/image_formats.h"

namespace moka {

struct ImageDecoder::Turbo {
  tjhandle handle = tjInitDecompress();
  std::vector<uint8_t> cmyk;
  ~Turbo() {
    if (handle != nullptr) tjDestroy(handle);
  }
};

namespace {

// Ink to light: 255 means no ink, as Adobe stores it, so each colour is its ink times black.
void CmykToBgr(const std::vector<uint8_t>& cmyk, Image& out) {
  const auto scaled = [](unsigned ink, unsigned black) { return static_cast<uint8_t>((ink * black + 127U) / 255U); };
  uint8_t* to = out.pixels.data();
  for (size_t i = 0; i + 3 < cmyk.size(); i += 4, to += 3) {
    to[0] = scaled(cmyk[i + 2], cmyk[i + 3]);
    to[1] = scaled(cmyk[i + 1], cmyk[i + 3]);
    to[2] = scaled(cmyk[i], cmyk[i + 3]);
  }
}

Error JpegError(std::string_view doing, const char* reason) {
  return {ErrorKind::kBadData, StrCat("cannot ", doing, " the JPEG: ", reason)};
}

void CheckPixels(int64_t width, int64_t height, int64_t limit) {
  if (width > limit / height) {  // both are positive; no product that could overflow
    throw Error(ErrorKind::kBadData, StrCat("the image claims ", width, "x", height, " pixels, the limit is ", limit));
  }
}

}  // namespace

Error CannotDecode(std::string_view format, std::string_view reason) {
  return {ErrorKind::kBadData, StrCat("cannot decode the ", format, ": ", reason)};
}

ImageDecoder::ImageDecoder() : turbo_(std::make_unique<Turbo>()) {
  UseOneOpenCvThread();
  if (turbo_->handle == nullptr) throw Error(ErrorKind::kUnavailable, StrCat("TurboJPEG: ", tjGetErrorStr2(nullptr)));
}
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

void ImageDecoder::Decode(std::string_view file, const DecodeOptions& options, Image& out) {
  const ImageHeader header = ReadImageHeader(file);
  CheckPixels(header.width, header.height, options.pixel_limit);
  if (file.size() > INT32_MAX) throw Error(ErrorKind::kBadData, "the image file is larger than 2 GiB");
  switch (header.format) {
    case ImageHeader::Format::kPng: DecodePng(file, header, options.damage, out); break;
    case ImageHeader::Format::kBmp: DecodeBmp(file, header, options.damage, out); break;
    case ImageHeader::Format::kWebp: DecodeWebp(file, header, out); break;
    default: DecodeJpeg(file, options, out); return;
  }
  if (options.channels == ImageChannels::kColor) ConvertChannels(3, out);
  if (options.channels == ImageChannels::kGrey) ConvertChannels(1, out);
}

void ImageDecoder::DecodeJpeg(std::string_view file, const DecodeOptions& options, Image& out) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  // TurboJPEG 2.1 can report success without setting these (a "header" of tables only).
  int width = 0;
  int height = 0;
  int subsampling = -1;
  int colorspace = -1;
  const bool strict = options.damage == DecodeOptions::Damage::kStrict;
  const int flags = TJFLAG_LIMITSCANS | (strict ? TJFLAG_STOPONWARNING : 0);
  const int got = tjDecompressHeader3(turbo_->handle, bytes, file.size(), &width, &height, &subsampling, &colorspace);
  const bool only_warned = got != 0 && tjGetErrorCode(turbo_->handle) == TJERR_WARNING;
  if (got != 0 && (strict || !only_warned)) throw JpegError("read the header of", tjGetErrorStr2(turbo_->handle));
  if (width <= 0 || height <= 0) throw JpegError("read the header of", "no frame header");
  CheckPixels(width, height, options.pixel_limit);
  const bool cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  const bool grey = options.channels == ImageChannels::kGrey ||
                    (options.channels == ImageChannels::kAsStored && colorspace == TJCS_GRAY);
  out.Resize(width, height, grey && !cmyk ? 1 : 3);
  unsigned char* pixels = out.pixels.data();
  int format = grey ? TJPF_GRAY : TJPF_BGR;
  if (cmyk) {
    turbo_->cmyk.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 4);
    pixels = turbo_->cmyk.data();
    format = TJPF_CMYK;
  }
  if (tjDecompress2(turbo_->handle, bytes, file.size(), pixels, width, 0, height, format, flags) != 0 &&
      (strict || tjGetErrorCode(turbo_->handle) != TJERR_WARNING)) {
    throw JpegError("decode", tjGetErrorStr2(turbo_->handle));
  }
  if (cmyk) {
    CmykToBgr(turbo_->cmyk, out);
    if (grey) ConvertChannels(1, out);
  }
  if (options.orientation == DecodeOptions::Orientation::kUpright) ApplyOrientation(ExifOrientation(file), out);
}

std::string EncodeJpeg(const Image& image, int quality) {
  Require(image.width > 0 && image.height > 0, "an image to encode is not empty");
  const std::unique_ptr<void, decltype(&tjDestroy)> handle(tjInitCompress(), &tjDestroy);
  if (handle == nullptr) throw Error(ErrorKind::kUnavailable, StrCat("TurboJPEG: ", tjGetErrorStr2(nullptr)));
  const bool grey = image.channels == 1;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type
  // The accurate transform, so that the bytes are those of OpenCV's encoder.
  const int code = tjCompress2(handle.get(), image.pixels.data(), static_cast<int>(image.width), 0,
                               static_cast<int>(image.height), grey ? TJPF_GRAY : TJPF_BGR, &bytes, &size,
                               grey ? TJSAMP_GRAY : TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(bytes, &tjFree);
  if (code != 0) throw Error(ErrorKind::kBadData, StrCat("cannot encode the JPEG: ", tjGetErrorStr2(handle.get())));
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace moka
