// Data layers of YOLO's ports that no reader is for: lanes (eric612), and boxes in an older fork of AnnotatedData
// (yuqj1991).
#include "layers/net/layer.h"
#include "layers/types/data/outside_data.h"

namespace moka {

LayerDef LaneDataLayer() {
  return OutsideDataLayer(
      "LaneData",
      "Pictures of roads [N,C,H,W], optional the points of up to 5 lanes [N,5,64,3] and their image [N,1,H/s,W/s]. "
      "Nets with the layer build, but no reader of its records exists: training or testing with it is an error.",
      3,
      {.params = {"data_param", "transform_param", "annotated_data_param"},
       .formula =
           "top 0: pictures `[batch_size,3,H,W]`, H and W those of the first `transform_param.resize_param`; top "
           "1 (optional): rows (x, y, lane) of up to 64 points of each lane, lane -1 outside of the picture; top "
           "2 (optional): 1 where a lane is drawn, `s = seg_scales` (8), or of seg_resize_height and "
           "seg_resize_width.",
       .gradient = "None: the tops are inputs of the net.",
       .source =
           "eric612's MobileNet-YOLO, lane_data_layer, without its reader. There top 1 is [N,1,1,1] until the first "
           "batch is read.",
       .example = R"(layer {
  name: "data"
  type: "LaneData"
  top: "data"
  top: "label"
  top: "lanes"
  data_param { source: "lanes_lmdb" batch_size: 2 backend: LMDB }
  transform_param { resize_param { height: 16 width: 16 } }
  annotated_data_param { seg_scales: 4 }
})"});
}

LayerDef YoloAnnotatedDataLayer() {
  return OutsideDataLayer(
      "YoloAnnotatedData",
      "Images [N,C,H,W] and, optional, their boxes [N,1,300,5] from a database. Nets with the layer build, but no "
      "reader is built in: training or testing with it is an error; AnnotatedData reads the same records.",
      2,
      {.params = {"data_param", "transform_param", "annotated_data_param"},
       .formula =
           "top 0: images `[batch_size,3,H,W]`, H and W those of the first `transform_param.resize_param_yolo` or "
           "`resize_param`; top 1 (optional): with `yolo_data_type: 1` 300 places of (class from 0, x, y, w, h) "
           "for each image, centres and sizes as parts of the image's sides, zeros where there are fewer boxes; "
           "else SSD's rows `[1,1,G,8]`.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "github.com/yuqj1991/caffe_train, annotated_yolo_data_layer of 2020, which draws one of the sizes of "
                 "resize_param_yolo for each batch; here the first one counts.",
       .example = R"(layer {
  name: "data"
  type: "YoloAnnotatedData"
  top: "data"
  top: "label"
  data_param { source: "voc_lmdb" batch_size: 2 backend: LMDB }
  transform_param { resize_param_yolo { height: 16 width: 16 } }
  annotated_data_param { yolo_data_type: 1 }
})"});
}

}  // namespace moka
