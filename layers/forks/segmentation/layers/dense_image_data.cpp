// DenseImageData (SegNet, ENet): images and label images named by the lines of a text file, read by the data room,
// which tells their shapes.
#include "layers/forks/segmentation/layers/label_image.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"

namespace moka {
namespace {

void BuildDenseImageData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

// CamVid's pictures, which SegNet's recipes are for, where no field says a size.
GuessedTypes GuessDenseImageData(const LayerParameter& layer) {
  return GuessPictures(layer, {.picture = {3, 360, 480}, .top = LabelImageTop});
}

}  // namespace

LayerDef DenseImageDataLayer() {
  return {.type = "DenseImageData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 2,
          .max_tops = 2,
          .build = BuildDenseImageData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessDenseImageData,
          .params = {"dense_image_data_param", "transform_param", "sampling_param"}};
}

}  // namespace moka
