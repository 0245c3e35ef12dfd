// A mask of a region brought back to the pixels of its image.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "layers/ops/boxes.h"

namespace moka {

// Calls f(row, column) for the pixels of an image where the mask [size,size] of a box (pixels), resized to it, is
// `threshold` or more: bilinear samples at pixels' centres, zeros around the mask (as Detectron2 does it).
template <class T, class F>
void PasteMask(const T* mask, int64_t size, const Box<double>& box, int64_t height, int64_t width, double threshold,
               F&& f) {
  if (!(box[2] > box[0] && box[3] > box[1])) return;
  // Where in the mask the centre of pixel i lies: its values are at 0 .. size - 1.
  const auto place = [size](int64_t i, double low, double high) {
    return (static_cast<double>(i) + 0.5 - low) / (high - low) * static_cast<double>(size) - 0.5;
  };
  // Pixels beyond the box by half a bin at most may still be the mask's.
  const auto first = [size](double low, double high) {
    return std::max<int64_t>(0, static_cast<int64_t>(std::floor(low - (high - low) / static_cast<double>(2 * size))));
  };
  const auto last = [size](double low, double high, int64_t side) {
    const double end = high + (high - low) / static_cast<double>(2 * size);
    return std::min(side, static_cast<int64_t>(std::ceil(std::min(end, static_cast<double>(side)))));
  };
  const auto at = [&](int64_t row, int64_t column) {
    const bool is_inside = row >= 0 && column >= 0 && row < size && column < size;
    return is_inside ? static_cast<double>(mask[row * size + column]) : 0;
  };
  for (int64_t y = first(box[1], box[3]); y < last(box[1], box[3], height); ++y) {
    const double v = place(y, box[1], box[3]);
    const auto row = static_cast<int64_t>(std::floor(v));
    const double down = v - static_cast<double>(row);
    for (int64_t x = first(box[0], box[2]); x < last(box[0], box[2], width); ++x) {
      const double u = place(x, box[0], box[2]);
      const auto column = static_cast<int64_t>(std::floor(u));
      const double along = u - static_cast<double>(column);
      const double value = (1 - down) * ((1 - along) * at(row, column) + along * at(row, column + 1)) +
                           down * ((1 - along) * at(row + 1, column) + along * at(row + 1, column + 1));
      if (value >= threshold) f(y, x);
    }
  }
}

}  // namespace moka
