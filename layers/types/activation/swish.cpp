// y = x * sigmoid(beta * x) (Ramachandran et al., arXiv 1710.05941).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSwish(LayerBuilder& l) {
  const double beta = Finite(l, "swish_param.beta", l.param().swish_param().beta());
  l.SetTop(0, l.b().Pointwise(StrCat("x0*sigmoid(", Number(beta), "*x0)"), {l.bottom(0)}));
}

}  // namespace

LayerDef SwishLayer() {
  return {
      .type = "Swish",
      .doc =
          "x * sigmoid(beta * x) of each element, swish_param.beta 1 by default; the top has the "
          "bottom's shape.",
      .build = BuildSwish,
      .page = {.params = {"swish_param"},
               .formula = "`y = x * s(beta * x)` with s the sigmoid, element by element; beta defaults to 1. The top "
                          "has the bottom's shape.",
               .gradient = "`dx = dy * (s + beta * x * s * (1 - s))` with s taken at beta * x.",
               .source = "Ramachandran, Zoph, Le, \"Searching for Activation Functions\", arXiv 1710.05941; BVLC "
                         "Caffe's swish_layer.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "swish" type: "Swish" bottom: "x" top: "swish" swish_param { beta: 1.5 } })"}};
}

}  // namespace moka
