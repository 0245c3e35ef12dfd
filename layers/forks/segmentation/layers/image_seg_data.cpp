// ImageSegData (DeepLab, PSPNet, DeconvNet): as DenseImageData, with a third top for the size that each image had.
#include "layers/forks/segmentation/layers/label_image.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImageSegData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef ImageSegDataLayer() {
  return {.type = "ImageSegData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 1,
          .max_tops = 3,
          .build = BuildImageSegData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessLabelledImages,
          .params = {"image_data_param", "transform_param", "sampling_param"}};
}

}  // namespace moka
