// ImageLabelmapData (HED): images and edge maps named by the lines of a text file, read by the data room, which tells
// their shapes.
#include "layers/forks/segmentation/layers/label_image.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImageLabelmapData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef ImageLabelmapDataLayer() {
  return {.type = "ImageLabelmapData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 1,
          .max_tops = 2,
          .build = BuildImageLabelmapData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessLabelledImages,
          .params = {"image_data_param", "transform_param", "sampling_param"}};
}

}  // namespace moka
