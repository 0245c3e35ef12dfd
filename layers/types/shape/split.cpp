// Every top is the bottom.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSplit(LayerBuilder& l) {
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, l.bottom(0));
}

}  // namespace

LayerDef SplitLayer() {
  return {.type = "Split",
          .doc =
              "Every top is the bottom, with its shape. Never needed: a blob may be read by any number of "
              "layers.",
          .max_tops = -1,
          .build = BuildSplit,
          .page = {.params = {},
                   .formula = "`y_i = x` for every top i.",
                   .gradient = "`dx` is the sum of the tops' `dy`.",
                   .source = "BVLC Caffe's split_layer, which Caffe inserts by itself; here a blob needs none.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "split" type: "Split" bottom: "x" top: "a" top: "b" }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" eltwise_param { coeff: 1 coeff: 2 } })"}};
}

}  // namespace moka
