// ImageDecoder, over the readers of each format; and JPEG's encoder.
#include <turbojpeg.h>

#include <array>
#include <atomic>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/image/image_formats.h"
#include "data/image/jpeg_reader.h"

namespace moka {

struct ImageDecoder::State {
  JpegReader jpeg;
  // The file that is open.
  std::string_view file;
  DecodeOptions options;
  ImageSize stored;     // as the file has it, before its orientation
  int orientation = 1;  // to be applied
  bool is_jpeg = false;
  ImageLosses losses;
  Image image;  // the whole of it, or the part last decoded
};

namespace {

void CheckPixels(int64_t width, int64_t height, int64_t limit) {
  if (width > limit / height) {  // both are positive; no product that could overflow
    throw Error(ErrorKind::kBadData, StrCat("the image claims ", width, "x", height, " pixels, the limit is ", limit));
  }
}

void DecodeOther(std::string_view file, const ImageHeader& header, const DecodeOptions& options, Image& out,
                 ImageLosses& losses) {
  switch (header.format) {
    case ImageHeader::Format::kPng: DecodePng(file, header, options.damage, out, losses); break;
    case ImageHeader::Format::kBmp: DecodeBmp(file, header, options.damage, out); break;
    case ImageHeader::Format::kGif: DecodeGif(file, header, options.damage, out, losses); break;
    case ImageHeader::Format::kPnm: DecodePnm(file, header, options.damage, out, losses); break;
    case ImageHeader::Format::kTiff: DecodeTiff(file, header, options, out, losses); break;
    case ImageHeader::Format::kWebp: DecodeWebp(file, header, out, losses); break;
    default: break;
  }
  const bool has_exif = header.format == ImageHeader::Format::kPng || header.format == ImageHeader::Format::kWebp;
  if (has_exif && options.orientation == DecodeOptions::Orientation::kUpright)
    ApplyOrientation(ExifOrientation(file), out);
  if (options.channels == ImageChannels::kColor) ConvertChannels(3, out);
  if (options.channels == ImageChannels::kGray) ConvertChannels(1, out);
}

}  // namespace

std::string_view TextOf(ImageLoss loss) {
  switch (loss) {
    case ImageLoss::kDepth: return "pictures of more than 8 bits a sample, of which the upper 8 are kept";
    case ImageLoss::kFrames: return "animations, of which the first frame is taken";
    case ImageLoss::kInks: return "pictures of inks (CMYK), whose colours are about right";
    case ImageLoss::kPages: return "pictures of several pages, of which the first is taken";
    case ImageLoss::kTransparency: return "pictures with transparency, which is left out";
  }
  return "";
}

void TellLosses(const ImageLosses& losses, std::string_view name) {
  static std::array<std::atomic<bool>, kImageLosses> told{};
  for (size_t i = 0; i < kImageLosses; ++i) {
    if (!losses.test(i) || told.at(i).exchange(true)) continue;
    LogWarning(StrCat(name, " is one of the ", TextOf(static_cast<ImageLoss>(i)), " (this is said once)"));
  }
}

Error CannotDecode(std::string_view format, std::string_view reason) {
  return {ErrorKind::kBadData, StrCat("cannot decode the ", format, ": ", reason)};
}

ImageDecoder::ImageDecoder() : state_(std::make_unique<State>()) { UseOneOpenCvThread(); }
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;
ImageDecoder::~ImageDecoder() = default;

ImageSize ImageDecoder::Open(std::string_view file, const DecodeOptions& options) {
  State& s = *state_;
  const ImageHeader header = ReadImageHeader(file);
  CheckPixels(header.width, header.height, options.pixel_limit);
  if (file.size() > INT32_MAX) throw Error(ErrorKind::kBadData, "the image file is larger than 2 GiB");
  s.file = file;
  s.options = options;
  s.orientation = 1;
  s.is_jpeg = header.format == ImageHeader::Format::kJpeg;
  if (!s.is_jpeg) {
    DecodeOther(file, header, options, s.image, s.losses);
    return s.stored = {s.image.channels, s.image.height, s.image.width};
  }
  const JpegReader::Header jpeg = s.jpeg.Open(file, options.damage);
  CheckPixels(jpeg.width, jpeg.height, options.pixel_limit);
  if (jpeg.is_cmyk) Mark(ImageLoss::kInks, s.losses);
  const bool gray =
      options.channels == ImageChannels::kGray || (options.channels == ImageChannels::kAsStored && jpeg.is_gray);
  s.stored = {gray ? 1 : 3, jpeg.height, jpeg.width};
  if (options.orientation == DecodeOptions::Orientation::kUpright) s.orientation = ExifOrientation(file);
  ImageSize upright = s.stored;
  if (SwapsAxes(s.orientation)) std::swap(upright.width, upright.height);
  return upright;
}

ImageLosses ImageDecoder::TakeLosses() { return std::exchange(state_->losses, {}); }

void ImageDecoder::FinishJpeg(Image& out) {
  State& s = *state_;
  s.jpeg.Read({0, 0, s.stored.width, s.stored.height}, 1, s.stored.channels == 1, out);
  ApplyOrientation(s.orientation, out);
}

void ImageDecoder::Decode(std::string_view file, const DecodeOptions& options, Image& out) {
  Open(file, options);
  if (state_->is_jpeg) return FinishJpeg(out);
  std::swap(out, state_->image);
}

ImageDecoder::Part ImageDecoder::DecodeWindow(const ImageWindow& window, int64_t width, int64_t height) {
  State& s = *state_;
  const ImageBox box = BoxOf(window);
  if (!s.is_jpeg) return {&s.image, box};
  if (s.orientation != 1) {
    FinishJpeg(s.image);
    return {&s.image, box};
  }
  int divisor = 8;
  while (divisor > 1 && (window.width < width * divisor || window.height < height * divisor)) divisor /= 2;
  const int64_t right = ScaledSide(window.x + window.width, divisor);
  const int64_t bottom = ScaledSide(window.y + window.height, divisor);
  const ImageWindow scaled{window.x / divisor, window.y / divisor, right - window.x / divisor,
                           bottom - window.y / divisor};
  const ImageWindow read = s.jpeg.Read(scaled, divisor, s.stored.channels == 1, s.image);
  return {&s.image,
          {box.x / divisor - static_cast<double>(read.x), box.y / divisor - static_cast<double>(read.y),
           box.width / divisor, box.height / divisor}};
}

std::string EncodeJpeg(const Image& image, int quality) {
  Require(image.width > 0 && image.height > 0, "an image to encode is not empty");
  const std::unique_ptr<void, decltype(&tjDestroy)> handle(tjInitCompress(), &tjDestroy);
  if (handle == nullptr) throw Error(ErrorKind::kUnavailable, StrCat("TurboJPEG: ", tjGetErrorStr2(nullptr)));
  const bool gray = image.channels == 1;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type
  // The accurate transform, so that the bytes are those of OpenCV's encoder.
  const int code = tjCompress2(handle.get(), image.pixels.data(), static_cast<int>(image.width), 0,
                               static_cast<int>(image.height), gray ? TJPF_GRAY : TJPF_BGR, &bytes, &size,
                               gray ? TJSAMP_GRAY : TJSAMP_420, quality, TJFLAG_ACCURATEDCT);
  const std::unique_ptr<unsigned char, decltype(&tjFree)> owner(bytes, &tjFree);
  if (code != 0) throw Error(ErrorKind::kBadData, StrCat("cannot encode the JPEG: ", tjGetErrorStr2(handle.get())));
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace moka
