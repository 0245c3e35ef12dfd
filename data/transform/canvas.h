// RecordData's canvas: a picture lies at its upper left corner as large as it is, or shrunk to fit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "data/image/resample.h"

namespace moka {

// Returns the part of a canvas [height, width] that the picture fills. Requires: the part has an area.
inline ResamplePart FittedTo(ResamplePart part, int64_t height, int64_t width) {
  const double scale = std::min({1.0, static_cast<double>(height) / static_cast<double>(part.height),
                                 static_cast<double>(width) / static_cast<double>(part.width)});
  const auto side = [scale](int64_t pixels, int64_t most) {
    return std::clamp<int64_t>(std::llround(static_cast<double>(pixels) * scale), 1, most);
  };
  part.height = side(part.height, height);
  part.width = side(part.width, width);
  return part;
}

}  // namespace moka
