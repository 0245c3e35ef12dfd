// ImageSegData (DeepLab, PSPNet, DeconvNet): as DenseImageData, with a third top for the size that each image had.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImageSegData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef ImageSegDataLayer() {
  return {
      .type = "ImageSegData",
      .doc =
          "Images [N,C,H,W], their label images [N,1,H,W] and (a third top) their heights and widths [N,1,1,2] "
          "before padding, from a list of files (lines \"image labels\"); image_data_param has the source and "
          "sizes, transform_param the random scales, the crop, mirror, mean_value and scale.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 1,
      .max_tops = 3,
      .build = BuildImageSegData,
      .page = {.params = {"image_data_param", "transform_param", "sampling_param"},
               .formula =
                   "Both pictures are resized to new_height x new_width (image bilinear, labels nearest) if these are "
                   "given, then by one of scale_factors, drawn for each; where they are smaller than the crop, the "
                   "mean is laid at the bottom and right of the image and ignore_label (default 255) of the labels; "
                   "then both are cut at the same place, random in TRAIN and central in TEST, and mirrored together "
                   "with probability 1/2 in both phases. Top 0 is `[batch_size,C,H,W]`: `y = (pixel - mean) * "
                   "scale`, C 3 in the order B,G,R or, with `is_color: false`, 1; H and W are crop_size, or "
                   "crop_height and crop_width, else those of the pictures. Top 1 is `[batch_size,1,H,W]`: with "
                   "`label_type: PIXEL` the pixels of the label image, read as grey; with IMAGE (the default) the "
                   "number in the list's second word; with NONE or `has_label: false` ignore_label. Top 2 is "
                   "`[batch_size,1,1,2]`: height and width of the picture before scale and margin, at most H and "
                   "W. In TRAIN transform_param.augment then changes both at random (docs/augmentation.md); label "
                   "pixels from outside are ignore_label.\n\nLines follow each other in the list's order, or with "
                   "shuffle in a new order each epoch; "
                   "rand_skip leaves out fewer than that many at the start, a random number.",
               .gradient = "None: the layer has no bottoms, its tops come from outside.",
               .source = "The image_seg_data_layer of DeepLab's Caffe (Chen et al., arXiv 1412.7062), PSPNet's "
                         "(Zhao et al., arXiv 1612.01105) and DeconvNet's. With new_height DeepLab and PSPNet resize "
                         "labels as they do images, which makes labels that are in neither; here, as in DeconvNet, "
                         "they are resized to the nearest.",
               .example = R"(layer {
  name: "data"
  type: "ImageSegData"
  top: "data"
  top: "label"
  image_data_param { source: "train.txt" batch_size: 2 label_type: PIXEL }
  transform_param { crop_size: 8 mirror: true }
})"}};
}

}  // namespace moka
