// OpenCV's conversions, so that hue is in units of two degrees, as SSD has it.
#include "data/transform/image_adjust.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "core/error.h"

namespace moka {
namespace {

cv::Mat AdjustedMatOf(const Image& image) {
  // OpenCV has no read-only Mat; sources are only read.
  return {static_cast<int>(image.height), static_cast<int>(image.width), image.channels == 3 ? CV_8UC3 : CV_8UC1,
          const_cast<uint8_t*>(image.pixels.data())};
}

// One channel of hue, saturation, value becomes x * factor + delta.
void ScaleHsv(int channel, double factor, double delta, Image& image) {
  if (image.channels != 3) return;
  UseOneOpenCvThread();
  cv::Mat pixels = AdjustedMatOf(image);
  cv::Mat hsv;
  cv::cvtColor(pixels, hsv, cv::COLOR_BGR2HSV);
  cv::Mat plane;
  cv::extractChannel(hsv, plane, channel);
  plane.convertTo(plane, -1, factor, delta);
  cv::insertChannel(plane, hsv, channel);
  cv::cvtColor(hsv, pixels, cv::COLOR_HSV2BGR);
}

void ScalePixels(double factor, double delta, Image& image) {
  UseOneOpenCvThread();
  cv::Mat pixels = AdjustedMatOf(image);
  pixels.convertTo(pixels, -1, factor, delta);
}

int Border(Padding padding) {
  if (padding == Padding::kConstant) return cv::BORDER_CONSTANT;
  return padding == Padding::kMirrored ? cv::BORDER_REFLECT_101 : cv::BORDER_REPLICATE;
}

}  // namespace

void AddToPixels(float delta, Image& image) { ScalePixels(1, double{delta}, image); }
void MultiplyPixels(float factor, Image& image) { ScalePixels(double{factor}, 0, image); }
void ShiftHue(float delta, Image& image) { ScaleHsv(0, 1, double{delta}, image); }
void MultiplySaturation(float factor, Image& image) { ScaleHsv(1, double{factor}, 0, image); }

void ReorderChannels(const std::array<int, 3>& order, Image& image) {
  Require(image.channels == 3, "ReorderChannels: 3 channels");
  for (size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    const std::array<uint8_t, 3> was = {image.pixels[i], image.pixels[i + 1], image.pixels[i + 2]};
    for (size_t c = 0; c < 3; ++c) image.pixels[i + c] = was[static_cast<size_t>(order[c])];
  }
}

void PadImage(const Image& from, const ImageMargins& margins, Padding padding, const std::array<float, 3>& values,
              Image& to) {
  UseOneOpenCvThread();
  to.Resize(from.width + margins.left + margins.right, from.height + margins.top + margins.bottom, from.channels);
  cv::Mat target = AdjustedMatOf(to);
  cv::copyMakeBorder(AdjustedMatOf(from), target, static_cast<int>(margins.top), static_cast<int>(margins.bottom),
                     static_cast<int>(margins.left), static_cast<int>(margins.right), Border(padding),
                     cv::Scalar(double{values[0]}, double{values[1]}, double{values[2]}));
}

void CropImage(const Image& from, const ImageWindow& window, Image& to) {
  Require(window.width > 0 && window.height > 0 && window.x >= 0 && window.y >= 0 &&
              window.x + window.width <= from.width && window.y + window.height <= from.height,
          "CropImage: the window lies inside the image");
  to.Resize(window.width, window.height, from.channels);
  const auto line = static_cast<size_t>(window.width * from.channels);
  for (int64_t y = 0; y < window.height; ++y) {
    const auto begin = static_cast<size_t>(((window.y + y) * from.width + window.x) * from.channels);
    std::copy_n(from.pixels.begin() + static_cast<std::ptrdiff_t>(begin), line,
                to.pixels.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(y) * line));
  }
}

}  // namespace moka
