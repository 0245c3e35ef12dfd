// ImageLabelmapData (HED): images and edge maps named by the lines of a text file, read by the data room, which tells
// their shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImageLabelmapData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef ImageLabelmapDataLayer() {
  return {
      .type = "ImageLabelmapData",
      .doc =
          "Images [N,C,H,W] and their edge maps [N,1,H,W] of zeros and ones, from a list of files (lines \"image "
          "map\"); "
          "image_data_param has the source, sizes and shuffle, transform_param the crop, mirror, mean and scale.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 1,
      .max_tops = 2,
      .build = BuildImageLabelmapData,
      .page = {
          .params = {"image_data_param", "transform_param", "sampling_param"},
          .formula =
              "Both pictures are resized to new_height x new_width (bilinear) if these are given, cut to crop_size at "
              "the same random place in both phases, and mirrored together with probability 1/2. Top 0 is "
              "`[batch_size,C,H,W]`: `y = (pixel - mean) * scale`, C 3 in the order B,G,R or, with `is_color: false`, "
              "1. Top 1 is `[batch_size,1,H,W]`: 1 where the map, read as grey, is 128 or more, else 0. In TRAIN "
              "transform_param.augment then changes both at random (docs/augmentation.md); label pixels from outside "
              "are 0.\n\nLines "
              "follow "
              "each other in the list's order, or with shuffle in a new order each epoch; rand_skip leaves out fewer "
              "than that many at the start, a random number.",
          .gradient = "None: the layer has no bottoms, its tops come from outside.",
          .source = "Xie and Tu, \"Holistically-nested edge detection\", 2015, arXiv 1504.06375; the "
                    "image_labelmap_data_layer of HED's Caffe. There a batch of one may have a new size each time; "
                    "here all samples have one shape, so images of several sizes need new_height and new_width or "
                    "crop_size.",
          .example = R"(layer {
  name: "data"
  type: "ImageLabelmapData"
  top: "data"
  top: "label"
  transform_param { crop_size: 8 mirror: true mean_value: 104 mean_value: 117 mean_value: 123 }
  image_data_param { root_folder: "BSDS/" source: "train_pair.lst" batch_size: 2 new_height: 10 new_width: 12 }
})"}};
}

}  // namespace moka
