// ImageSegData (DeepLab, PSPNet, DeconvNet): as DenseImageData, with a third top for the size that each image had.
#include "layers/front/segmentation/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef ImageSegDataLayer() {
  return {.type = "ImageSegData",
          .doc =
              "Images [N,C,H,W], their label images [N,1,H,W] and (a third top) their heights and widths [N,1,1,2] "
              "before padding, from a list of files (lines \"image labels\"); image_data_param and transform_param.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 1,
          .max_tops = 3,
          .build = Build};
}

}  // namespace moka
