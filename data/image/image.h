// Images: decoding of JPEG, PNG, BMP, WebP, GIF, TIFF and PNM files into 8-bit interleaved pixels (grey, or B,G,R as in
// Caffe), and encoding and resizing. Sizes are read from the file's header and checked before any pixel buffer exists.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Pixels [height, width, channels], rows without padding. Reused as a scratch buffer it keeps its capacity.
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;  // 1: grey, 3: B,G,R
  std::vector<uint8_t> pixels = {};

  void Resize(int64_t new_width, int64_t new_height, int64_t new_channels);
};

enum class ImageChannels { kAsStored, kColor, kGray };
// How many channels a picture that is stored with `stored` comes to have.
constexpr int64_t ChannelCount(ImageChannels wanted, int64_t stored) {
  return wanted == ImageChannels::kColor ? 3 : wanted == ImageChannels::kGray ? 1 : stored;
}

struct DecodeOptions {
  ImageChannels channels = ImageChannels::kAsStored;
  // The orientation that a JPEG's EXIF block or a TIFF gives is applied, so the picture stands upright.
  enum class Orientation { kUpright, kAsStored } orientation = Orientation::kUpright;
  // Strict: a file that needs repair (truncated, bad codes, a wrong checksum of pixels) is an error. Lenient: JPEG,
  // PNG, BMP, GIF, TIFF and PNM are decoded as far as they go, checksums aside; a damaged WebP is an error in both.
  enum class Damage { kStrict, kLenient } damage = Damage::kStrict;
  int64_t pixel_limit = int64_t{1} << 26U;
};

// Properties that a picture's file holds and its pixels of 8 bits do not: whoever reads it says so.
enum class ImageLoss : size_t {
  kDepth,         // samples of more than 8 bits
  kFrames,        // an animation, of which the first frame is taken
  kInks,          // CMYK, turned to colours without the profile that says which
  kPages,         // several pages, of which the first is taken
  kTransparency,  // pixels that let shine through what is behind them
};
inline constexpr size_t kImageLosses = 5;
using ImageLosses = std::bitset<kImageLosses>;
// In the plural: "pictures of several pages, of which the first is taken".
std::string_view TextOf(ImageLoss loss);
// Warns of each kind of loss once in a process, with the name of the first picture that has it.
void TellLosses(const ImageLosses& losses, std::string_view name);

// The facts that a file's header gives; nothing is decoded.
struct ImageHeader {
  enum class Format { kUnknown, kJpeg, kPng, kBmp, kWebp, kGif, kTiff, kPnm } format = Format::kUnknown;
  int64_t width = 0;
  int64_t height = 0;
};
// Errors: kBadData for a header without a size, and for what is none of these formats: it is named if it is known.
ImageHeader ReadImageHeader(std::string_view file);
// The name of a format of pictures (or of what is often found in a picture's place) that is not read, of a file or of
// a file's name by its ending: "HEIC"; empty for any other.
std::string_view UnreadFormatOf(std::string_view file);
std::string_view UnreadFormatOfName(std::string_view name);

// The EXIF orientation tag of a JPEG, PNG or WebP, 1..8; 1 when there is none. (A TIFF's is its reader's.)
int ExifOrientation(std::string_view file);
constexpr bool SwapsAxes(int orientation) { return orientation >= 5; }
// Turns an image so that EXIF orientation `tag` (1..8) becomes 1.
void ApplyOrientation(int tag, Image& image);

struct ImageSize {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
};

// A rectangle with borders between pixels.
struct ImageBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Resizing: kLinear is OpenCV's default, as Caffe's new_height/new_width; kArea averages when it shrinks (no aliasing)
// and is linear when it grows.
enum class Interpolation { kLinear, kArea, kNearest, kCubic, kLanczos4 };
void ResizeImage(const Image& from, int64_t width, int64_t height, Interpolation interpolation, Image& to);
// Makes a picture whose longer side is above `side` so small that it is `side` pixels long (kArea), at least 1x1;
// others are copied.
void ShrinkImage(const Image& from, int64_t side, Image& to);
// The pixels [x, x+width) x [y, y+height).
struct ImageWindow {
  int64_t x = 0;
  int64_t y = 0;
  int64_t width = 0;
  int64_t height = 0;
};
inline ImageBox BoxOf(const ImageWindow& window) {
  return {static_cast<double>(window.x), static_cast<double>(window.y), static_cast<double>(window.width),
          static_cast<double>(window.height)};
}
// Requires: the window lies inside and is not empty.
void ResizeWindow(const Image& from, const ImageWindow& window, int64_t width, int64_t height,
                  Interpolation interpolation, Image& to);

// Holds a decompressor and scratch; one a thread.
class ImageDecoder {
 public:
  ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;
  ~ImageDecoder();

  // Errors: kBadData saying the format and what is wrong.
  void Decode(std::string_view file, const DecodeOptions& options, Image& out);
  // Returns the losses of the pictures that were decoded since the last call.
  ImageLosses TakeLosses();

  // Decoding of a part, in two steps. Open reads the header (a format that has no partial decoding is decoded); the
  // bytes must stay where they are until the next call. Width and height are the upright picture's. Errors: as Decode.
  ImageSize Open(std::string_view file, const DecodeOptions& options);
  // The window's pixels, or more around them: where they are in `image`. JPEGs are decoded at a half, a quarter or an
  // eighth where both sides of the window stay at least `width` and `height`, and what lies outside is not computed. A
  // strict decoder then finds files that are cut off, but no damage below the window. The part lasts until the next
  // call. Requires: Open; the window is not empty and lies inside. Errors: as Decode.
  struct Part {
    const Image* image = nullptr;
    ImageBox box;  // the window
  };
  Part DecodeWindow(const ImageWindow& window, int64_t width, int64_t height);

 private:
  struct State;
  // The JPEG that is open, whole and upright.
  void FinishJpeg(Image& out);

  std::unique_ptr<State> state_;
};

// OpenCV's own threads are turned off: pixels are worked on by the pipeline's workers, one image each.
void UseOneOpenCvThread();

// To the other channel count: grey is repeated; colour becomes luma (OpenCV's weights).
void ConvertChannels(int64_t channels, Image& image);

// quality 1..100.
std::string EncodeJpeg(const Image& image, int quality = 95);
std::string EncodePng(const Image& image);

}  // namespace moka
