// y = |x|.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildAbsVal(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("abs(x0)", {l.bottom(0)})); }

}  // namespace

LayerDef AbsValLayer() {
  return {.type = "AbsVal",
          .doc = "The absolute value of each element; the top has the bottom's shape.",
          .build = BuildAbsVal,
          .page = {.params = {},
                   .formula = "`y = |x|`, element by element; y has x's shape.",
                   .gradient = "`dx = dy * sign(x)`, 0 where x is 0.",
                   .source = "BVLC Caffe's absval_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "abs" type: "AbsVal" bottom: "x" top: "abs" })"}};
}

}  // namespace moka
