// MultilabelImageData (DRML): ImageData with several labels a line, which are yes, no or unknown.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef MultilabelImageDataLayer() {
  return {
      .type = "MultilabelImageData",
      .doc =
          "Images [N,C,H,W] and multilabel_num labels each [N,multilabel_num,1,1] from a list of files (lines \"path "
          "label label ..\"; image_data_param has the source and sizes, transform_param the crop). Nets with the layer "
          "build, but no reader of its files exists: training or testing with it is an error.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 2,
      .build = Build,
      .page = {
          .params = {"image_data_param", "transform_param"},
          .formula =
              "top 0: images `[batch_size,C,H,W]`, C 3 or, with `is_color: false`, 1; H and W are the crop size of "
              "`transform_param`, else `new_height` and `new_width`. top 1 (optional): their labels "
              "`[batch_size,multilabel_num,1,1]`.",
          .gradient = "None: the tops are inputs of the net.",
          .source =
              "DRML (Zhao, Chu, Zhang, \"Deep Region and Multi-label Learning for Facial Action Unit Detection\", "
              "CVPR 2016), image_data_layer_multilabel, without its reader.",
          .example = R"(layer {
  name: "faces"
  type: "MultilabelImageData"
  top: "faces"
  top: "label"
  transform_param { crop_size: 8 }
  image_data_param { source: "faces.txt" batch_size: 2 multilabel_num: 12 }
})"}};
}

}  // namespace moka
