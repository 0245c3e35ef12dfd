// Boxes are rows of SSD or of YOLO, as many as a batch may have.
#include "layers/forks/yolo/layers/box_top.h"

#include <algorithm>

namespace moka {

Shape BoxTop(const LayerParameter& layer, int top, const GuessedPicture& picture) {
  const AnnotatedDataParameter& p = layer.annotated_data_param();
  if (top == 2) {
    if (p.seg_resize_width() > 0 && p.seg_resize_height() > 0)
      return {picture.batch, 1, p.seg_resize_height(), p.seg_resize_width()};
    const int64_t scale = std::max(p.seg_scales(), 1);
    return {picture.batch, 1, std::max<int64_t>(picture.h / scale, 1), std::max<int64_t>(picture.w / scale, 1)};
  }
  if (p.yolo_data_type() == 1) return {picture.batch, 1, 300, 5};
  return {p.yoloformat() ? picture.batch : 1, 1, picture.batch, p.has_landmarks() ? 19 : 8};
}

}  // namespace moka
