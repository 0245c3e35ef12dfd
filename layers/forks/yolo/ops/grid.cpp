// The index arithmetic of [N, anchors * length, H, W] maps, and the softmax and slope of a cell's classes.
#include "layers/forks/yolo/ops/grid.h"

#include "core/text.h"

namespace moka {

YoloGrid GridOf(std::string_view op, const Shape& x, int64_t anchors, int64_t length) {
  if (x.rank() != 4 || x.Count() == 0 || anchors < 1 || x[1] != anchors * length) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [N,", anchors, "*", length, ",H,W] for ", anchors,
                                           " anchors of ", length, " channels, found ", x.ToString()));
  }
  return {x[0], anchors, length, x[2], x[3]};
}

void SoftmaxInPlace(double* values, int64_t classes, int64_t step) {
  double max = values[0];
  for (int64_t c = 1; c < classes; ++c) max = std::max(max, values[c * step]);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += values[c * step] = std::exp(values[c * step] - max);
  for (int64_t c = 0; c < classes; ++c) values[c * step] /= sum;
}

double ClassSlope(double scale, bool is_label, double p) { return -scale * ((is_label ? 1 : 0) - p); }

}  // namespace moka
