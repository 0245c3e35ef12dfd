// DenseImageData (SegNet, ENet): images and label images named by the lines of a text file, read by the data room,
// which tells their shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildDenseImageData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef DenseImageDataLayer() {
  return {
      .type = "DenseImageData",
      .doc =
          "Images [N,C,H,W] and their label images [N,1,H,W] from a list of files (lines \"image labels\"); "
          "dense_image_data_param has the source, batch_size, sizes, crop, shuffle and mirror, transform_param the "
          "mean "
          "and scale.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 2,
      .max_tops = 2,
      .build = BuildDenseImageData,
      .page = {
          .params = {"dense_image_data_param", "transform_param", "sampling_param"},
          .formula =
              "Both pictures are resized to new_height x new_width (image bilinear, labels nearest) if these are "
              "given, "
              "mirrored together with probability 1/2 if mirror is set, and cut to crop_height x crop_width at the "
              "same "
              "random place, all in both phases. Top 0 is `[batch_size,C,H,W]`: `y = (pixel - mean) * scale`, C 3 in "
              "the "
              "order B,G,R or, with `is_color: false`, 1. Top 1 is `[batch_size,1,H,W]`: the pixels of the label "
              "image, "
              "read as grey; with label_divide_factor f `[batch_size,1,H/f,W/f]`, the label image resized to that part "
              "of new_height and new_width. In TRAIN transform_param.augment then changes both at random "
              "(docs/augmentation.md); label pixels from outside are 0.\n\nLines follow each other in the list's "
              "order, or with shuffle in a new "
              "order each epoch; rand_skip leaves out fewer than that many at the start, a random number.",
          .gradient = "None: the layer has no bottoms, its tops come from outside.",
          .source = "The dense_image_data_layer of SegNet's Caffe (Badrinarayanan et al., arXiv 1511.00561) and of "
                    "ENet's. As there a crop or mirror of transform_param is an error, and a mean image has the crop's "
                    "size. All samples have one shape: SegNet's batches of one may change theirs.",
          .example = R"(layer {
  name: "data"
  type: "DenseImageData"
  top: "data"
  top: "label"
  dense_image_data_param { source: "train.txt" batch_size: 2 new_height: 12 new_width: 16 crop_height: 8 crop_width: 8 }
})"}};
}

}  // namespace moka
