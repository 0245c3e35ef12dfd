// y = 1 / (1 + exp(-x)).
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSigmoid(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("sigmoid(x0)", {l.bottom(0)})); }

}  // namespace

LayerDef SigmoidLayer() {
  return {.type = "Sigmoid",
          .doc = "The logistic function 1 / (1 + exp(-x)) of each element; the top has the bottom's shape.",
          .build = BuildSigmoid,
          .page = {.params = {},
                   .formula = "`y = 1 / (1 + exp(-x))`, element by element; the top has the bottom's shape.",
                   .gradient = "`dx = dy * y * (1 - y)`.",
                   .source = "BVLC Caffe's sigmoid_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "x" top: "sigmoid" })"}};
}

}  // namespace moka
