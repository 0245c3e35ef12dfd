// SegData (yjxiong): one image and its label image a batch, fed from outside.
#include "layers/forks/segmentation/layers/label_image.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

GuessedTypes GuessSegData(const LayerParameter& layer) {
  const auto read = [](const LayerParameter& data, DataFields& fields) {
    fields.source = data.seg_data_param().source();
    fields.batch = 1;
    fields.is_cut_to_strides = true;
  };
  return GuessPictures(layer, {.read = read, .top = LabelImageTop});
}

}  // namespace

LayerDef SegDataLayer() {
  return OutsideDataLayer("SegData", {.guess = GuessSegData}, 2, {"seg_data_param", "transform_param"});
}

}  // namespace moka
