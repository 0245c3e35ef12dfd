// BoxData (Intel): images and their boxes from a database, read by the data room, which tells their shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildBoxData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef BoxDataLayer() {
  return {
      .type = "BoxData",
      .doc =
          "Images [N,C,H,W] and, a top for each data_param.side, their boxes [N,5 T]: T (data_param.num_label, 30) "
          "places of "
          "(label, x, y, w, h), zeros where there are fewer. The tops are fed by the program that runs "
          "the net: no reader of these databases is built in, so `moka train` and `moka test` refuse "
          "such a layer.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = -1,
      .build = BuildBoxData,
      .page = {.params = {"data_param", "transform_param"},
               .formula = "Top 0 is the images [N,C,H,W]; top i, for the i-th data_param.side, the boxes [N,5 T]: T "
                          "(num_label, default 30) places of (label, x, y, w, h) for each image, centres and sizes as "
                          "parts of the image's "
                          "sides, zeros where there are fewer boxes. Shapes and values are those that whoever builds "
                          "and runs the net gives.",
               .gradient = "None: the tops are data.",
               .source = "Intel's Caffe (YOLO v2). The batches come from the program that runs the net.",
               .example = R"(layer {
  name: "data"
  type: "BoxData"
  top: "data"
  top: "label"
  data_param { source: "train_lmdb" backend: LMDB batch_size: 2 side: 13 }
  transform_param { crop_size: 64 }
})"}};
}

}  // namespace moka
