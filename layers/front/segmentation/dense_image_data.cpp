// DenseImageData (SegNet, ENet): images and label images named by the lines of a text file, read by the data room,
// which tells their shapes.
#include "layers/front/segmentation/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef DenseImageDataLayer() {
  return {
      .type = "DenseImageData",
      .doc =
          "Images [N,C,H,W] and their label images [N,1,H,W] from a list of files (lines \"image labels\"); "
          "dense_image_data_param has the source, batch_size, sizes, shuffle and mirror. Nets with the layer build, "
          "but no reader of its files exists: training or testing with it is an error.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 2,
      .max_tops = 2,
      .build = Build,
      .page = {
          .params = {"dense_image_data_param", "transform_param"},
          .formula =
              "top 0: images `[batch_size,C,H,W]`, C 3 or, with `is_color: false`, 1; top 1: their label images "
              "`[batch_size,1,H,W]`. H and W are `crop_height` and `crop_width`, else `new_height` and `new_width`.",
          .gradient = "None: the tops are inputs of the net.",
          .source = "The dense_image_data_layer of SegNet's Caffe (Badrinarayanan et al., arXiv 1511.00561) and of "
                    "ENet's, without its reader.",
          .example = R"(layer {
  name: "data"
  type: "DenseImageData"
  top: "data"
  top: "label"
  dense_image_data_param { source: "train.txt" batch_size: 2 new_height: 12 new_width: 16 crop_height: 8 crop_width: 8 }
})"}};
}

}  // namespace moka
