// y = tanh(x).
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildTanh(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("tanh(x0)", {l.bottom(0)})); }

}  // namespace

LayerDef TanHLayer() {
  return {.type = "TanH",
          .doc = "The hyperbolic tangent of each element; the top has the bottom's shape.",
          .build = BuildTanh,
          .page = {.params = {},
                   .formula = "`y = tanh(x)`, element by element; the top has the bottom's shape.",
                   .gradient = "`dx = dy * (1 - y^2)`.",
                   .source = "BVLC Caffe's tanh_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "tanh" type: "TanH" bottom: "x" top: "tanh" })"}};
}

}  // namespace moka
