// Label images are as large as the picture, or as a field divides it.
#include "layers/forks/segmentation/layers/label_image.h"

#include <algorithm>

namespace moka {

Shape LabelImageTop(const LayerParameter& layer, int top, const GuessedPicture& picture) {
  if (top > 1) return {picture.batch, 1, 1, 2};
  const auto divide = std::max<int64_t>(
      static_cast<int64_t>(std::min(layer.dense_image_data_param().label_divide_factor(), 1024.0F)), 1);
  return {picture.batch, 1, std::max<int64_t>(picture.h / divide, 1), std::max<int64_t>(picture.w / divide, 1)};
}

GuessedTypes GuessLabelledImages(const LayerParameter& layer) { return GuessPictures(layer, {.top = LabelImageTop}); }

}  // namespace moka
