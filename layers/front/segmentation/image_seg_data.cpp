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
              "before padding, from a list of files (lines \"image labels\"); image_data_param has the source and "
              "sizes, transform_param the crop. Nets with the layer build, but no reader of its files exists: training "
              "or testing with it is an error.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 1,
          .max_tops = 3,
          .build = Build,
          .page = {.params = {"image_data_param", "transform_param"},
                   .formula = "top 0: images `[batch_size,C,H,W]`, C 3 or, with `is_color: false`, 1; top 1: their "
                              "label images `[batch_size,1,H,W]`; top 2: the height and width that each image had "
                              "before padding, `[batch_size,1,1,2]`. H and W are the crop size of `transform_param`, "
                              "else `new_height` and `new_width`. A net that is built without the files takes tops 1 "
                              "and 2 as `[batch_size]` unless their shapes are given from outside.",
                   .gradient = "None: the tops are inputs of the net.",
                   .source = "The image_seg_data_layer of DeepLab's Caffe (Chen et al., arXiv 1412.7062), PSPNet's "
                             "(Zhao et al., arXiv 1612.01105) and DeconvNet's, without its reader.",
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
