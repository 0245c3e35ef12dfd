// WindowSegData (DeconvNet): windows of images with their label images, read by the data room, which tells their
// shapes.
#include "layers/forks/segmentation/layers/label_image.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildWindowSegData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef WindowSegDataLayer() {
  return {.type = "WindowSegData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 1,
          .max_tops = 3,
          .build = BuildWindowSegData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessLabelledImages,
          .params = {"image_data_param", "transform_param", "sampling_param"}};
}

}  // namespace moka
