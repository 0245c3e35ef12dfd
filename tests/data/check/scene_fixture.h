// Drawn scenes for the tests of checks: a scene looks the same in every size, and unlike scenes of other seeds.
#pragma once

#include <array>
#include <cmath>

#include "data/image/image.h"

namespace moka {

// A few coloured discs on a slope of brightness.
inline Image Scene(uint64_t seed, int64_t width, int64_t height, int64_t channels = 3) {
  constexpr size_t kDiscs = 7;
  std::array<std::array<double, 6>, kDiscs> discs = {};  // x, y, radius, and three colours
  uint64_t state = seed * 1000003 + 17;
  const auto next = [&] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 40U) / static_cast<double>(uint64_t{1} << 24U);
  };
  for (auto& disc : discs) {
    for (double& value : disc) value = next();
  }
  const double slope_x = next();
  const double slope_y = next();
  Image image;
  image.Resize(width, height, channels);
  size_t at = 0;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const double u = (static_cast<double>(x) + 0.5) / static_cast<double>(width);
      const double v = (static_cast<double>(y) + 0.5) / static_cast<double>(height);
      const double ground = 60 + 60 * (slope_x * u + slope_y * v);
      std::array<double, 3> color = {ground, ground, ground};
      for (const auto& disc : discs) {
        if (std::hypot(u - disc[0], v - disc[1]) > 0.1 + 0.15 * disc[2]) continue;
        for (size_t c = 0; c < 3; ++c) color.at(c) = 30 + 200 * disc.at(3 + c);
      }
      for (int64_t c = 0; c < channels; ++c)
        image.pixels[at++] = static_cast<uint8_t>(color.at(static_cast<size_t>(c)));
    }
  }
  return image;
}

}  // namespace moka
