// WindowSegData (DeconvNet): windows of images with their label images, read by the data room, which tells their
// shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildWindowSegData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef WindowSegDataLayer() {
  return {
      .type = "WindowSegData",
      .doc =
          "Windows of images [N,C,H,W], their label images [N,1,H,W] and (a third top) the heights and widths of the "
          "images [N,1,1,2], from a list of lines \"image labels x1 y1 x2 y2\"; image_data_param has the source and "
          "sizes, transform_param the crop, mirror, mean_value and scale.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 1,
      .max_tops = 3,
      .build = BuildWindowSegData,
      .page = {
          .params = {"image_data_param", "transform_param", "sampling_param"},
          .formula =
              "A window x1..x2, y1..y2 (inclusive, counted from 0) is cut from both pictures; what of it lies outside "
              "is 0 in the image and ignore_label in the labels. Both are resized to new_height x new_width (image "
              "bilinear, labels nearest) if these are given, then as in ImageSegData: a margin at the bottom and right "
              "where they are smaller than the crop, the crop (random in TRAIN, central in TEST) and the mirror "
              "(probability 1/2 in both phases).\n\nTop 0 is `[batch_size,C,H,W]`: `y = (pixel - mean) * scale`; top 1 "
              "`[batch_size,1,H,W]`: the pixels of the label image, the number in the list's second word everywhere "
              "(`label_type: IMAGE`, the default) or ignore_label (`NONE`, where the list has no second word); top 2 "
              "`[batch_size,1,1,2]`: height and width of the whole image, at most H and W.",
          .gradient = "None: the layer has no bottoms, its tops come from outside.",
          .source = "Noh, Hong and Han, \"Learning deconvolution network for semantic segmentation\", 2015, arXiv "
                    "1505.04366; the window_seg_data_layer of DeconvNet's Caffe, where the third top is always there.",
          .example = R"(layer {
  name: "data"
  type: "WindowSegData"
  top: "data"
  top: "label"
  image_data_param { root_folder: "VOC2012" source: "train.txt" label_type: PIXEL batch_size: 2 new_height: 10 new_width: 10 }
  transform_param { crop_size: 8 mirror: true mean_value: 104 mean_value: 117 mean_value: 123 }
})"}};
}

}  // namespace moka
