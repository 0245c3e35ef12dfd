// OpenCV draws lines, boxes and ASCII words by its Hershey fonts; other scripts go to data/image/lettering.h.
#include "data/image/drawing.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "data/image/lettering.h"

namespace moka {
namespace {

constexpr uint8_t kWhite = 255;
constexpr int kWordMargin = 2;  // pixels of ground around words

cv::Mat MatOf(Image& image) {
  Require(image.channels == 3, "marks are drawn on pictures of three channels");
  return {static_cast<int>(image.height), static_cast<int>(image.width), CV_8UC3, image.pixels.data()};
}

cv::Scalar ScalarOf(Color color) {
  return {static_cast<double>(color.blue), static_cast<double>(color.green), static_cast<double>(color.red)};
}

bool IsAscii(const std::string& words) {
  return std::ranges::all_of(words, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Control characters have no letters.
std::string WithoutControls(std::string words) {
  std::ranges::replace_if(
      words, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return words;
}

// Returns the height of the fonts' letters, whose capitals are as high as the Hershey letters'.
int FontHeight(const WordStyle& style) {
  constexpr double kPixels = 30;
  constexpr int kLeast = 8;
  return std::max(kLeast, static_cast<int>(std::lround(kPixels * style.scale)));
}

LetterSize LettersOf(const std::string& words, const WordStyle& style) {
  if (!IsAscii(words)) return SizeOfLetters(words, FontHeight(style));
  int below_line = 0;
  const cv::Size size = cv::getTextSize(words, cv::FONT_HERSHEY_SIMPLEX, style.scale, 1, &below_line);
  return {size.width, size.height, below_line};
}

}  // namespace

Color ColorOf(int64_t number) {
  // Steps of the golden angle around the circle of hues.
  constexpr double kGoldenTurn = 0.618033988749895;
  const double turn = static_cast<double>(((number % 1024) + 1024) % 1024) * kGoldenTurn;
  const double hue = (turn - std::floor(turn)) * 6;
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue, 6.0);
    const double value = 1 - 0.85 * std::max(0.0, std::min({k, 4 - k, 1.0}));
    return static_cast<uint8_t>(std::lround(255 * value));
  };
  return {.blue = channel(1), .green = channel(3), .red = channel(5)};
}

void DrawBox(const MarkBox& box, Color color, int thickness, Image& image) {
  const auto inside = [](double edge, int64_t side) {
    return static_cast<int>(std::lround(std::clamp(edge, 0.0, static_cast<double>(side))));
  };
  const int left = inside(box.left, image.width);
  const int top = inside(box.top, image.height);
  const int right = std::max(left, inside(box.right, image.width) - 1);
  const int bottom = std::max(top, inside(box.bottom, image.height) - 1);
  cv::rectangle(MatOf(image), {left, top}, {right, bottom}, ScalarOf(color), thickness);
}

void DrawLine(double from_x, double from_y, double to_x, double to_y, Color color, int thickness, Image& image) {
  const auto at = [](double x, double y) {
    return cv::Point(static_cast<int>(std::lround(x)), static_cast<int>(std::lround(y)));
  };
  cv::line(MatOf(image), at(from_x, from_y), at(to_x, to_y), ScalarOf(color), thickness, cv::LINE_AA);
}

void DrawDisc(double x, double y, int radius, Color color, Image& image) {
  cv::circle(MatOf(image), {static_cast<int>(x), static_cast<int>(y)}, radius, ScalarOf(color), cv::FILLED);
}

WordSize SizeOfWords(const std::string& words, const WordStyle& style) {
  const LetterSize letters = LettersOf(WithoutControls(words), style);
  return {letters.width + 2 * kWordMargin, letters.above + letters.below + 2 * kWordMargin};
}

void DrawWords(const std::string& words, int64_t left, int64_t top, const WordStyle& style, Image& image) {
  const std::string plain = WithoutControls(words);
  const LetterSize letters = LettersOf(plain, style);
  const WordSize size = SizeOfWords(words, style);
  const int64_t x = std::max<int64_t>(0, std::min(left, image.width - size.width));
  const int64_t y = std::max<int64_t>(0, std::min(top, image.height - size.height));
  cv::Mat mat = MatOf(image);
  if (style.has_ground) {
    const cv::Rect ground(static_cast<int>(x), static_cast<int>(y), static_cast<int>(size.width),
                          static_cast<int>(size.height));
    cv::rectangle(mat, ground, ScalarOf(style.ground), cv::FILLED);
  }
  const int64_t foot_x = x + kWordMargin;
  const int64_t foot_y = y + kWordMargin + letters.above;
  if (!IsAscii(plain)) return DrawLetters(plain, foot_x, foot_y, FontHeight(style), style.color, image);
  const cv::Point foot(static_cast<int>(foot_x), static_cast<int>(foot_y));
  cv::putText(mat, plain, foot, cv::FONT_HERSHEY_SIMPLEX, style.scale, ScalarOf(style.color), 1, cv::LINE_AA);
}

void BlendMask(std::span<const uint8_t> mask, Color color, double part, Image& image) {
  Require(mask.size() * 3 == image.pixels.size(), "a mask has a value for each pixel");
  const double rest = 1 - part;
  const auto mix = [&](uint8_t& value, uint8_t with) {
    value = static_cast<uint8_t>(std::lround(rest * value + part * with));
  };
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] == 0) continue;
    mix(image.pixels[i * 3], color.blue);
    mix(image.pixels[i * 3 + 1], color.green);
    mix(image.pixels[i * 3 + 2], color.red);
  }
}

Image Paper(int64_t width, int64_t height) {
  Image image;
  image.Resize(width, height, 3);
  std::ranges::fill(image.pixels, kWhite);
  return image;
}

void Paste(const Image& from, int64_t x, int64_t y, Image& to) {
  Require(x >= 0 && y >= 0 && x + from.width <= to.width && y + from.height <= to.height,
          "a picture is pasted inside another");
  for (int64_t row = 0; row < from.height; ++row) {
    std::copy_n(from.pixels.begin() + row * from.width * 3, from.width * 3,
                to.pixels.begin() + ((y + row) * to.width + x) * 3);
  }
}

Image Tiled(const std::vector<Image>& images, int64_t columns, int64_t gap) {
  int64_t width = 1;
  int64_t height = 1;
  for (const Image& image : images) {
    width = std::max(width, image.width);
    height = std::max(height, image.height);
  }
  const auto count = static_cast<int64_t>(images.size());
  const int64_t rows = std::max<int64_t>(1, (count + columns - 1) / columns);
  Image sheet = Paper(columns * (width + gap) + gap, rows * (height + gap) + gap);
  for (int64_t i = 0; i < count; ++i) {
    Paste(images[static_cast<size_t>(i)], gap + i % columns * (width + gap), gap + i / columns * (height + gap), sheet);
  }
  return sheet;
}

}  // namespace moka
