// DenseImageData (SegNet, ENet): images and label images named by the lines of a text file, read by the data room,
// which tells their shapes.
#include "layers/front/segmentation/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef DenseImageDataLayer() {
  return {.type = "DenseImageData",
          .doc =
              "Images [N,C,H,W] and their label images [N,1,H,W] from a list of files (lines \"image labels\"); "
              "dense_image_data_param has the source, batch_size, sizes, shuffle and mirror.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 2,
          .max_tops = 2,
          .build = Build};
}

}  // namespace moka
