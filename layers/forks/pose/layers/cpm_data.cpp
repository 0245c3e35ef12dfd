// CPMData: pictures of people with maps of their joints and limbs.
#include "layers/net/layer.h"
#include "layers/types/data/outside_data.h"

namespace moka {

LayerDef CpmDataLayer() {
  return OutsideDataLayer(
      "CPMData",
      "Pictures of people [N,3,crop_size_y,crop_size_x] and, optional, [N,2(num_parts+1),H,W] weights and maps of "
      "their joints and limbs, with a cell for stride pixels. Nets with the layer build, but no reader of its "
      "records exists: training or testing with it is an error.",
      2,
      {.params = {"data_param", "cpm_transform_param"},
       .formula = "top 0: pictures `[batch_size,3,crop_size_y,crop_size_x]`; top 1 (optional): `[batch_size,2 "
                  "(num_parts + 1),crop_size_y / stride,crop_size_x / stride]`, first the weights of the maps, "
                  "then the maps themselves, the last of each that of the background.",
       .gradient = "None: the tops are inputs of the net.",
       .source = "Cao, Simon, Wei, Sheikh, \"Realtime Multi-Person 2D Pose Estimation using Part Affinity "
                 "Fields\", arXiv 1611.08050, whose caffe_train has the reader; here in both phases the shapes "
                 "are those of TRAIN.",
       .example = R"(layer {
  name: "data"
  type: "CPMData"
  top: "data"
  top: "label"
  data_param { source: "people_lmdb" batch_size: 2 backend: LMDB }
  cpm_transform_param { stride: 8 crop_size_x: 32 crop_size_y: 24 num_parts: 4 }
})"});
}

}  // namespace moka
