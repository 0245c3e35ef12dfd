// OpenCV resizes and converts; its own threads are off, as the pipeline has one worker a core already.
#include "data/image/image.h"

#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <utility>

#include "core/error.h"
#include "core/size.h"

namespace moka {
namespace {

cv::Mat MatOf(const Image& image) {
  // OpenCV has no read-only Mat; every use below only reads.
  return {static_cast<int>(image.height), static_cast<int>(image.width), image.channels == 3 ? CV_8UC3 : CV_8UC1,
          const_cast<uint8_t*>(image.pixels.data())};
}

int Method(Interpolation interpolation, bool shrinks) {
  switch (interpolation) {
    case Interpolation::kArea: return shrinks ? cv::INTER_AREA : cv::INTER_LINEAR;
    case Interpolation::kNearest: return cv::INTER_NEAREST;
    case Interpolation::kCubic: return cv::INTER_CUBIC;
    case Interpolation::kLanczos4: return cv::INTER_LANCZOS4;
    case Interpolation::kLinear: break;
  }
  return cv::INTER_LINEAR;
}

}  // namespace

void Image::Resize(int64_t new_width, int64_t new_height, int64_t new_channels) {
  width = new_width;
  height = new_height;
  channels = new_channels;
  pixels.resize(static_cast<size_t>((Size(width) * height * channels).value()));
}

void UseOneOpenCvThread() {
  static const bool done = [] {
    cv::setNumThreads(1);
    return true;
  }();
  static_cast<void>(done);
}

void ResizeWindow(const Image& from, const ImageWindow& window, int64_t width, int64_t height,
                  Interpolation interpolation, Image& to) {
  Require(window.width > 0 && window.height > 0 && window.x >= 0 && window.y >= 0 &&
              window.x + window.width <= from.width && window.y + window.height <= from.height,
          "ResizeWindow: the window lies inside the image");
  Require(width > 0 && height > 0, "ResizeWindow: the new size is positive");
  UseOneOpenCvThread();
  const cv::Rect rect(static_cast<int>(window.x), static_cast<int>(window.y), static_cast<int>(window.width),
                      static_cast<int>(window.height));
  const cv::Mat source = MatOf(from)(rect);
  to.Resize(width, height, from.channels);
  cv::Mat target = MatOf(to);
  const bool shrinks = width < window.width && height < window.height;
  cv::resize(source, target, target.size(), 0, 0, Method(interpolation, shrinks));
}

void ResizeImage(const Image& from, int64_t width, int64_t height, Interpolation interpolation, Image& to) {
  ResizeWindow(from, {0, 0, from.width, from.height}, width, height, interpolation, to);
}

void ShrinkImage(const Image& from, int64_t side, Image& to) {
  const int64_t longer = std::max(from.width, from.height);
  if (longer <= side) {
    to = from;
    return;
  }
  const auto scaled = [&](int64_t pixels) { return std::max<int64_t>(1, pixels * side / longer); };
  ResizeImage(from, scaled(from.width), scaled(from.height), Interpolation::kArea, to);
}

void ConvertChannels(int64_t channels, Image& image) {
  if (image.channels == channels) return;
  Require(channels == 1 || channels == 3, "ConvertChannels: 1 or 3 channels");
  UseOneOpenCvThread();
  Image converted;
  converted.Resize(image.width, image.height, channels);
  cv::Mat target = MatOf(converted);
  cv::cvtColor(MatOf(image), target, channels == 3 ? cv::COLOR_GRAY2BGR : cv::COLOR_BGR2GRAY);
  std::swap(image, converted);
}

}  // namespace moka
