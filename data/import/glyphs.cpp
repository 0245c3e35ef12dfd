// A glyph is drawn by OpenCV's stroke fonts under a random affine map, at twice the size and averaged down; all is a
// function of (seed, index).
#include "data/import/glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <opencv2/imgproc.hpp>
#include <string>

#include "core/rng.h"

namespace moka {
namespace {

constexpr int kCanvas = 56;  // drawn at twice the size, then averaged down

// The matrix that turns, shears, stretches and shifts the glyph about the canvas' centre.
cv::Matx23d Distortion(RandomStream& random) {
  const double angle = random.Uniform(-15, 15) * std::numbers::pi / 180;
  const double shear = random.Uniform(-0.25, 0.25);
  const double scale_x = random.Uniform(0.75, 1.15);
  const double scale_y = random.Uniform(0.8, 1.15);
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  const cv::Matx22d turn(c, -s, s, c);
  const cv::Matx22d stretch(scale_x, shear, 0, scale_y);
  const cv::Matx22d m = turn * stretch;
  constexpr double kCenter = kCanvas / 2.0;
  constexpr double kShift = 5;
  const double x = kCenter + random.Uniform(-kShift, kShift) - (m(0, 0) + m(0, 1)) * kCenter;
  const double y = kCenter + random.Uniform(-kShift, kShift) - (m(1, 0) + m(1, 1)) * kCenter;
  return {m(0, 0), m(0, 1), x, m(1, 0), m(1, 1), y};
}

void PutDigit(int digit, RandomStream& random, cv::Mat& canvas) {
  constexpr std::array<int, 6> kFonts = {cv::FONT_HERSHEY_SIMPLEX, cv::FONT_HERSHEY_DUPLEX,
                                         cv::FONT_HERSHEY_COMPLEX, cv::FONT_HERSHEY_TRIPLEX,
                                         cv::FONT_HERSHEY_PLAIN,   cv::FONT_HERSHEY_SCRIPT_SIMPLEX};
  int font = kFonts[random.Below(kFonts.size())];
  if (random.Below(3) == 0) font |= cv::FONT_ITALIC;
  const std::string text = std::to_string(digit);
  const int thickness = 2 + static_cast<int>(random.Below(5));
  int baseline = 0;
  const cv::Size unit = cv::getTextSize(text, font, 1.0, 1, &baseline);
  constexpr double kGlyphHeight = 36;
  const double scale = kGlyphHeight / std::max(1, unit.height);
  const cv::Size size = cv::getTextSize(text, font, scale, thickness, &baseline);
  const cv::Point corner((kCanvas - size.width) / 2, (kCanvas + size.height) / 2);
  cv::putText(canvas, text, corner, font, scale, cv::Scalar(255), thickness, cv::LINE_AA);
}

}  // namespace

int DrawGlyph(uint64_t seed, uint64_t index, Image& image) {
  UseOneOpenCvThread();
  RandomStream random(seed, index);
  const int digit = static_cast<int>(random.Below(10));
  cv::Mat canvas(kCanvas, kCanvas, CV_8UC1, cv::Scalar(0));
  PutDigit(digit, random, canvas);
  cv::Mat bent;
  cv::warpAffine(canvas, bent, Distortion(random), canvas.size(), cv::INTER_LINEAR, cv::BORDER_CONSTANT);
  const double blur = random.Uniform(0.3, 1.5);
  cv::GaussianBlur(bent, bent, cv::Size(), blur);
  image.Resize(kGlyphSide, kGlyphSide, 1);
  cv::Mat small(kGlyphSide, kGlyphSide, CV_8UC1, image.pixels.data());
  cv::resize(bent, small, small.size(), 0, 0, cv::INTER_AREA);
  const double contrast = random.Uniform(0.6, 1.0);
  const double noise = random.Uniform(0.0, 18.0);
  for (uint8_t& pixel : image.pixels) {
    const double value = pixel * contrast + random.Normal(0, noise);
    pixel = static_cast<uint8_t>(std::clamp(std::lround(value), 0L, 255L));
  }
  return digit;
}

int GlyphDigit(uint64_t seed, uint64_t index) { return static_cast<int>(RandomStream(seed, index).Below(10)); }

}  // namespace moka
