#include "data/augment/erase.h"

#include <algorithm>
#include <cmath>

namespace moka {

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
      for (float& value : row) value = erasing.noise() ? static_cast<float>(random.Normal(0, 1)) : 0.0F;
    }
  }
}

}  // namespace moka
