// Pillow's integer arithmetic, byte for byte, as published recipes were measured with it. Changes of one channel by
// itself are tables of 256 entries.
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

// Plain choices between values, which compilers turn into vectors.
float Larger(float a, float b) { return a > b ? a : b; }
float Smaller(float a, float b) { return a < b ? a : b; }

// Sixths of the circle, [0, 6), of at most [-6, 12).
float Wrapped(float sixths) { return sixths + (sixths < 0 ? 6.0F : 0.0F) - (sixths >= 6 ? 6.0F : 0.0F); }

// A channel of the colour of hue h in sixths: `most` less `spread` times how far the hue is from the channel's own.
float ChannelOf(float h, float offset, float most, float spread) {
  const float k = Wrapped(h + offset);
  return most - spread * Larger(0, Smaller(Smaller(k, 4 - k), 1));
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
  const auto mean = static_cast<int>(std::lround(static_cast<double>(sum) / static_cast<double>(pixels)));
  Replace(TableOf([=](int i) { return Blend(mean, i, factor); }), image);
}

void ScaleSaturation(float factor, Image& image) {
  if (image.channels != kColors) return;
  for (size_t i = 0; i < image.pixels.size(); i += kColors) {
    uint8_t* pixel = &image.pixels[i];
    const int gray = Luma(pixel);
    for (int64_t c = 0; c < kColors; ++c) pixel[c] = Blend(gray, pixel[c], factor);
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

// HSV's hue (Smith, "Color gamut transform pairs", 1978) is turned, value and saturation stay: then the largest and the
// smallest channel are what they were. Some pixels at a time, planar.
void TurnHue(float turns, Image& image) {
  if (image.channels != kColors) return;
  const float shift = 6 * (turns - std::floor(turns));
  constexpr size_t kBlock = 64;
  std::array<float, kBlock> b{};
  std::array<float, kBlock> g{};
  std::array<float, kBlock> r{};
  const size_t pixels = image.pixels.size() / kColors;
  for (size_t first = 0; first < pixels; first += kBlock) {
    const size_t count = std::min(kBlock, pixels - first);
    uint8_t* bgr = image.pixels.data() + first * kColors;
    for (size_t i = 0; i < count; ++i) {
      b[i] = bgr[i * kColors];
      g[i] = bgr[i * kColors + 1];
      r[i] = bgr[i * kColors + 2];
    }
    for (size_t i = 0; i < kBlock; ++i) {
      const float most = Larger(Larger(b[i], g[i]), r[i]);
      const float spread = most - Smaller(Smaller(b[i], g[i]), r[i]);
      const float part = 1 / Larger(spread, 1);
      const float of_red = (g[i] - b[i]) * part;
      const float of_green = (b[i] - r[i]) * part + 2;
      const float of_blue = (r[i] - g[i]) * part + 4;
      const float of_others = most == g[i] ? of_green : of_blue;
      const float h = Wrapped(Wrapped(most == r[i] ? of_red : of_others) + shift);
      b[i] = ChannelOf(h, 1, most, spread);
      g[i] = ChannelOf(h, 3, most, spread);
      r[i] = ChannelOf(h, 5, most, spread);
    }
    // torchvision's way from [0, 1] to bytes: all are equally wide.
    constexpr float kWidth = 255.999F / 255;
    for (size_t i = 0; i < count; ++i) {
      bgr[i * kColors] = static_cast<uint8_t>(b[i] * kWidth);
      bgr[i * kColors + 1] = static_cast<uint8_t>(g[i] * kWidth);
      bgr[i * kColors + 2] = static_cast<uint8_t>(r[i] * kWidth);
    }
  }
}

void AddToChannels(const std::array<double, 3>& bgr, Image& image) {
  Require(image.channels == kColors, "AddToChannels: 3 channels");
  std::array<Table, 3> tables{};
  for (size_t c = 0; c < tables.size(); ++c) {
    tables[c] = TableOf([&](int i) { return std::clamp(std::round(i + bgr[c]), 0.0, 255.0); });
  }
  for (size_t i = 0; i < image.pixels.size(); i += kColors) {
    for (size_t c = 0; c < tables.size(); ++c) image.pixels[i + c] = tables[c][image.pixels[i + c]];
  }
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
