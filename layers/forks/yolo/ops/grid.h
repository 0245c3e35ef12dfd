// A map of YOLO's predictions: [N, anchors * length, H, W], where each anchor of each cell has x, y, w, h, objectness
// and the classes, `length` channels.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/op.h"
#include "layers/forks/yolo/ops/boxes.h"

namespace moka {

struct YoloGrid {
  int64_t images = 1;
  int64_t anchors = 1;
  int64_t length = 5;
  int64_t height = 1;
  int64_t width = 1;

  int64_t Cells() const { return height * width; }
  // Offset of channel 0 of an anchor in a cell; further channels lie Cells() apart.
  size_t At(int64_t image, int64_t anchor, int64_t row, int64_t column) const {
    return static_cast<size_t>(((image * anchors + anchor) * length * height + row) * width + column);
  }
  size_t Channel(size_t at, int64_t channel) const { return at + static_cast<size_t>(channel * Cells()); }

  // Calls f(image, anchor, row, column) for every anchor of every cell.
  template <class F>
  void Visit(F&& f) const {
    for (int64_t image = 0; image < images; ++image) {
      for (int64_t anchor = 0; anchor < anchors; ++anchor) {
        for (int64_t cell = 0; cell < Cells(); ++cell) f(image, anchor, cell / width, cell % width);
      }
    }
  }
};

// Errors: kConfig unless x is [N, anchors * length, H, W] with elements.
YoloGrid GridOf(std::string_view op, const Shape& x, int64_t anchors, int64_t length);

// Replaces `classes` values by their softmax; values lie `step` apart.
void SoftmaxInPlace(double* values, int64_t classes, int64_t step);

// The classes of a one-hot target: -scale * (target - p).
double ClassSlope(double scale, bool is_label, double p);

}  // namespace moka
