// Licence plates with their characters (yuqj1991/caffe_train, from the CCPD data set).
#include "layers/net/layer.h"
#include "layers/types/data/outside_data.h"

namespace moka {

LayerDef CcpdDataLayer() {
  return OutsideDataLayer(
      "ccpdData",
      "Images of licence plates [N,C,H,W] and, optional, the classes of their seven characters [N,7] from a "
      "database. Nets with the layer build, but no reader of its records exists: training or testing with it is "
      "an error.",
      2,
      {.params = {"data_param", "transform_param"},
       .formula = "top 0: images `[batch_size,3,H,W]`, H and W those of `transform_param.resize_param`; top "
                  "1 (optional): labels `[batch_size,7]`.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "github.com/yuqj1991/caffe_train, ccpd_data_layer, for sequences (its detection nets read "
                 "other labels), without its reader.",
       .example = R"(layer {
  name: "data"
  type: "ccpdData"
  top: "data"
  top: "label"
  data_param { source: "plates_lmdb" batch_size: 2 backend: LMDB }
  transform_param { resize_param { height: 8 width: 16 } }
})"});
}

}  // namespace moka
