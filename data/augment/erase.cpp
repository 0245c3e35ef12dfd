// Random erasing draws an area and a ratio until the rectangle fits, ten times at most; cutout is a square around a
// drawn pixel, cut at the borders.
#include "data/augment/erase.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace moka {
namespace {

// Two numbers of N(0, 1) by Box and Muller's polar form.
std::array<float, 2> NormalPair(RandomStream& random) {
  const float radius = std::sqrt(-2 * std::log(1 - UnitFloat(random.Bits())));
  const float angle = 2 * std::acos(-1.0F) * UnitFloat(random.Bits());
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

ImageWindow DrawErasing(const Erasing& erasing, int64_t width, int64_t height, RandomStream& random) {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound))); };
  if (erasing.size() > 0) {
    const auto side = static_cast<int64_t>(erasing.size());
    const int64_t left = below(width) - side / 2;
    const int64_t top = below(height) - side / 2;
    const int64_t x = std::max<int64_t>(left, 0);
    const int64_t y = std::max<int64_t>(top, 0);
    return {x, y, std::min(left + side, width) - x, std::min(top + side, height) - y};
  }
  const auto area = static_cast<double>(width * height);
  const double low = std::log(double{erasing.ratio_min()});
  const double high = std::log(double{erasing.ratio_max()});
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double part = area * random.Uniform(double{erasing.area_min()}, double{erasing.area_max()});
    const double ratio = std::exp(random.Uniform(low, high));
    const int64_t h = std::llround(std::sqrt(part * ratio));
    const int64_t w = std::llround(std::sqrt(part / ratio));
    if (h < 1 || w < 1 || h >= height || w >= width) continue;
    const int64_t y = below(height - h + 1);
    return {below(width - w + 1), y, w, h};
  }
  return {};
}

void EraseWindow(const Erasing& erasing, const ImageWindow& window, const Shape& shape, RandomStream& random,
                 std::span<float> sample) {
  for (int64_t c = 0; c < shape[0]; ++c) {
    for (int64_t y = window.y; y < window.y + window.height; ++y) {
      const auto row = sample.subspan(static_cast<size_t>((c * shape[1] + y) * shape[2] + window.x),
                                      static_cast<size_t>(window.width));
      if (!erasing.noise()) {
        std::ranges::fill(row, 0.0F);
        continue;
      }
      for (size_t x = 0; x < row.size(); x += 2) {
        const std::array<float, 2> pair = NormalPair(random);
        std::copy_n(pair.begin(), std::min<size_t>(2, row.size() - x), row.begin() + static_cast<ptrdiff_t>(x));
      }
    }
  }
}

}  // namespace moka
