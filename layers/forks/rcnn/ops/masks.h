// Instance masks of MNC (Dai et al. 2016): a mask lies in a box of whole pixels of the original image and is resized
// with bilinear samples at pixel centres (as OpenCV's resize does).
#pragma once

#include <algorithm>
#include <cmath>

#include "layers/forks/rcnn/ops/windows.h"

namespace moka {

// A box of whole pixels, both ends included.
struct PixelWindow {
  int64_t x1, y1, x2, y2;
  int64_t width() const { return std::max<int64_t>(0, x2 - x1 + 1); }
  int64_t height() const { return std::max<int64_t>(0, y2 - y1 + 1); }
};

// Ties go to even, as numpy rounds.
inline PixelWindow RoundedBox(const double* box, double scale) {
  const auto at = [&](int i) { return static_cast<int64_t>(std::nearbyint(HeldCoordinate(box[i] / scale))); };
  return {at(0), at(1), at(2), at(3)};
}

// The true mask [height, width] of a row of gt_masks [G, rows, columns], its upper left corner at its box's.
struct TrueMask {
  const double* pixels;
  int64_t columns;
  int64_t height;
  int64_t width;
  PixelWindow box;

  // The value at a pixel of the image; 0 outside the mask or its box.
  double At(int64_t y, int64_t x) const {
    const int64_t row = y - box.y1;
    const int64_t column = x - box.x1;
    const bool is_inside =
        row >= 0 && column >= 0 && row < std::min(height, box.height()) && column < std::min(width, box.width());
    return is_inside ? pixels[row * columns + column] : 0;
  }
};

// Pixel i of an axis resized from `inputs` to `outputs` pixels.
inline Taps<double> ResizeTaps(int64_t i, int64_t inputs, int64_t outputs) {
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs);
  const double at = (static_cast<double>(i) + 0.5) * scale - 0.5;
  return TapsAt(std::clamp(at, 0.0, static_cast<double>(inputs - 1)), inputs, 0.0);
}

}  // namespace moka
