#include "data/augment/color.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace moka {
namespace {

using Table = std::array<uint8_t, 256>;

constexpr int64_t kColors = 3;

// Pillow's blend.
uint8_t Blend(int dull, int value, float factor) {
  const float mixed = static_cast<float>(dull) + factor * static_cast<float>(value - dull);
  return static_cast<uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

// Pillow's luma of one pixel.
int Luma(const uint8_t* bgr) { return (bgr[2] * 19595 + bgr[1] * 38470 + bgr[0] * 7471 + 0x8000) >> 16; }

template <class Value>
Table TableOf(const Value& value) {
  Table table{};
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = static_cast<uint8_t>(value(i));
  return table;
}

void Replace(const Table& table, Image& image) {
  for (uint8_t& pixel : image.pixels) pixel = table[pixel];
}

// Gives each channel the table made of its histogram.
template <class MakeTable>
void ReplaceByHistogram(const MakeTable& make, Image& image) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t c = 0; c < channels; ++c) {
    std::array<int64_t, 256> histogram{};
    for (size_t i = c; i < image.pixels.size(); i += channels) ++histogram[image.pixels[i]];
    const Table table = make(histogram);
    for (size_t i = c; i < image.pixels.size(); i += channels) image.pixels[i] = table[image.pixels[i]];
  }
}

// Hue in [0, 1), saturation and value of a pixel in [0, 1] (Smith, "Color gamut transform pairs", 1978).
struct Hsv {
  float h = 0;
  float s = 0;
  float v = 0;
};

Hsv HsvOf(float b, float g, float r) {
  const float most = std::max({b, g, r});
  const float spread = most - std::min({b, g, r});
  if (spread == 0) return {0, 0, most};
  float sixths = 0;
  if (most == r) {
    sixths = (g - b) / spread;
  } else if (most == g) {
    sixths = 2 + (b - r) / spread;
  } else {
    sixths = 4 + (r - g) / spread;
  }
  const float h = sixths / 6;
  return {h - std::floor(h), spread / most, most};
}

std::array<float, 3> BgrOf(const Hsv& x) {
  const float sixths = x.h * 6;
  const float sector = std::floor(sixths);
  const float f = sixths - sector;
  const float p = x.v * (1 - x.s);
  const float q = x.v * (1 - x.s * f);
  const float t = x.v * (1 - x.s * (1 - f));
  switch (static_cast<int>(sector) % 6) {
    case 0: return {p, t, x.v};
    case 1: return {p, x.v, q};
    case 2: return {t, x.v, p};
    case 3: return {x.v, q, p};
    case 4: return {x.v, p, t};
    default: return {q, p, x.v};
  }
}

}  // namespace

void ScaleBrightness(float factor, Image& image) {
  Replace(TableOf([factor](int i) { return Blend(0, i, factor); }), image);
}

void ScaleContrast(float factor, Image& image) {
  const int64_t pixels = image.width * image.height;
  int64_t sum = 0;
  if (image.channels == kColors) {
    for (int64_t i = 0; i < pixels; ++i) sum += Luma(&image.pixels[static_cast<size_t>(i * kColors)]);
  } else {
    sum = std::accumulate(image.pixels.begin(), image.pixels.end(), int64_t{0});
  }
  const auto mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  Replace(TableOf([=](int i) { return Blend(mean, i, factor); }), image);
}

void ScaleSaturation(float factor, Image& image) {
  if (image.channels != kColors) return;
  for (size_t i = 0; i < image.pixels.size(); i += kColors) {
    uint8_t* pixel = &image.pixels[i];
    const int grey = Luma(pixel);
    for (int64_t c = 0; c < kColors; ++c) pixel[c] = Blend(grey, pixel[c], factor);
  }
}

void ScaleSharpness(float factor, Image& image, Image& scratch) {
  scratch.Resize(image.width, image.height, image.channels);
  scratch.pixels = image.pixels;
  const int64_t step = image.channels;
  const int64_t line = image.width * step;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t i = 0; i < line; ++i) {
      const uint8_t* from = scratch.pixels.data() + y * line + i;
      const bool is_border = y == 0 || y == image.height - 1 || i < step || i >= line - step;
      int smooth = *from;
      if (!is_border) {
        int sum = 4 * *from;
        for (const int64_t row : {-line, int64_t{0}, line}) sum += from[row - step] + from[row] + from[row + step];
        smooth = (2 * sum + 13) / 26;
      }
      image.pixels[static_cast<size_t>(y * line + i)] = Blend(smooth, *from, factor);
    }
  }
}

void TurnHue(float turns, Image& image) {
  if (image.channels != kColors) return;
  for (size_t i = 0; i < image.pixels.size(); i += kColors) {
    uint8_t* pixel = &image.pixels[i];
    const auto part = [&](int c) { return static_cast<float>(pixel[c]) / 255; };
    Hsv hsv = HsvOf(part(0), part(1), part(2));
    hsv.h += turns;
    hsv.h -= std::floor(hsv.h);
    const std::array<float, 3> bgr = BgrOf(hsv);
    // torchvision's way from [0, 1] to bytes: all are equally wide.
    for (size_t c = 0; c < bgr.size(); ++c) pixel[c] = static_cast<uint8_t>(std::clamp(bgr[c], 0.0F, 1.0F) * 255.999F);
  }
}

void AddToChannels(const std::array<double, 3>& bgr, Image& image) {
  Require(image.channels == kColors, "AddToChannels: 3 channels");
  std::array<Table, 3> tables{};
  for (size_t c = 0; c < tables.size(); ++c) {
    tables[c] = TableOf([&](int i) { return std::clamp(std::round(i + bgr[c]), 0.0, 255.0); });
  }
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = tables[i % tables.size()][image.pixels[i]];
}

void Posterize(int bits, Image& image) {
  const int low = (1 << (8 - bits)) - 1;
  Replace(TableOf([low](int i) { return i & ~low; }), image);
}

void Solarize(double threshold, Image& image) {
  Replace(TableOf([threshold](int i) { return i < threshold ? i : 255 - i; }), image);
}

void Invert(Image& image) {
  Replace(TableOf([](int i) { return 255 - i; }), image);
}

void StretchContrast(Image& image) {
  ReplaceByHistogram(
      [](const std::array<int64_t, 256>& histogram) {
        const auto is_there = [](int64_t count) { return count > 0; };
        const auto low = std::ranges::find_if(histogram, is_there) - histogram.begin();
        const auto high = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), is_there) - histogram.rbegin());
        if (high <= low) return TableOf([](int i) { return i; });
        const double scale = 255.0 / static_cast<double>(high - low);
        const double offset = -static_cast<double>(low) * scale;
        return TableOf([=](int i) { return std::clamp(i * scale + offset, 0.0, 255.0); });
      },
      image);
}

void Equalize(Image& image) {
  ReplaceByHistogram(
      [](const std::array<int64_t, 256>& histogram) {
        const auto last = std::find_if(histogram.rbegin(), histogram.rend(), [](int64_t count) { return count > 0; });
        const int64_t total = std::accumulate(histogram.begin(), histogram.end(), int64_t{0});
        const int64_t step = last == histogram.rend() ? 0 : (total - *last) / 255;
        if (step == 0) return TableOf([](int i) { return i; });
        int64_t below = step / 2;
        return TableOf([&](int i) {
          const int64_t value = std::min<int64_t>(below / step, 255);
          below += histogram[static_cast<size_t>(i)];
          return value;
        });
      },
      image);
}

}  // namespace moka
