// y = log(1 + exp(x)), written so that neither sign of x overflows.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildBnll(LayerBuilder& l) {
  l.SetTop(0, l.b().Pointwise("select(gt(x0,0),x0+log(1+exp(-x0)),log(1+exp(x0)))", {l.bottom(0)}));
}

}  // namespace

LayerDef BnllLayer() {
  return {.type = "BNLL",
          .doc =
              "The binomial normal log likelihood, or softplus, log(1 + exp(x)) of each element; the top has the "
              "bottom's shape.",
          .build = BuildBnll,
          .page = {.params = {},
                   .formula = "`y = log(1 + exp(x))`, computed as `x + log(1 + exp(-x))` where x > 0; y has x's shape.",
                   .gradient = "`dx = dy / (1 + exp(-x))`.",
                   .source = "BVLC Caffe's bnll_layer; its backward pass bounds x by 50, which changes no float.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "bnll" type: "BNLL" bottom: "x" top: "bnll" })"}};
}

}  // namespace moka
