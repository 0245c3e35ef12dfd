// SegData (yjxiong): one image and its label image a batch, fed from outside.
#include "layers/net/layer.h"
#include "layers/types/data/outside_data.h"

namespace moka {

LayerDef SegDataLayer() {
  return OutsideDataLayer(
      "SegData",
      "An image [1,C,H,W] and its label image [1,1,H,W] a batch; seg_data_param names the list of files, "
      "transform_param the random scales, mirror, mean_value and the stride that divides H and W. The tops are fed by "
      "the program that runs the net: no reader of such lists is built in, so `moka train` and `moka test` refuse such "
      "a layer.",
      2,
      {.params = {"seg_data_param", "transform_param"},
       .formula =
           "Top 0 is the image [1,C,H,W], top 1 its label image [1,1,H,W]. Shapes and values are those that "
           "whoever builds and runs the net gives; a net that is built without them takes an image of 3 channels "
           "and 224 x 224, each side cut to a multiple of transform_param.stride and to upper_size, or "
           "upper_height and upper_width.",
       .gradient = "None: the layer has no bottoms, its tops come from outside.",
       .source = "The seg_data_layer of yjxiong's Caffe, where each batch has the size of its image. The batches come "
                 "from the program that runs the net.",
       .example = R"(layer {
  name: "data"
  type: "SegData"
  top: "data"
  top: "label"
  seg_data_param { source: "train.txt" root_dir: "VOC2012/" shuffle: true }
  transform_param { stride: 32 mean_value: 104 mean_value: 117 mean_value: 123 }
})"});
}

}  // namespace moka
