// MultilabelImageData (DRML) and MultiLabelImageData (PG-CNN): ImageData with several labels a line.
#include <algorithm>

#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"

namespace moka {
namespace {

void BuildMultilabelImageData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

// multi_label_image_data_param, which other layers may have too, says its number of labels itself.
GuessedTypes GuessMultilabelImageData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int /*top*/, const GuessedPicture& picture) -> Shape {
    if (data.has_multi_label_image_data_param()) return {};
    return {picture.batch, std::max<int64_t>(data.image_data_param().multilabel_num(), 1), 1, 1};
  };
  return GuessPictures(layer, {.top = top});
}

LayerDef Row(const std::string& type) {
  return {.type = type,
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 2,
          .build = BuildMultilabelImageData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessMultilabelImageData,
          .params = {"image_data_param", "multi_label_image_data_param", "transform_param", "sampling_param"}};
}

}  // namespace

LayerDef MultilabelImageDataLayer() { return Row("MultilabelImageData"); }
LayerDef MultiLabelImageDataLayer() { return Row("MultiLabelImageData"); }

}  // namespace moka
