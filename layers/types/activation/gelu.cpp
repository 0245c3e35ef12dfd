// y = x P(X <= x) of a normal X (Hendrycks and Gimpel, arXiv 1606.08415), exact, not its approximation by tanh.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildGelu(LayerBuilder& l) {
  l.SetTop(0, l.b().Pointwise("0.5*x0*(1+erf(x0*0.7071067811865476))", {l.bottom(0)}));
}

}  // namespace

LayerDef GeluLayer() {
  return {.type = "GELU",
          .doc = "x times the normal distribution function of x, of each element; the top has the bottom's shape.",
          .build = BuildGelu,
          .page = {.formula = "`y = x * F(x)`, `F(x) = (1 + erf(x / sqrt(2))) / 2`, element by element.",
                   .gradient = "`dx = dy * (F(x) + x * exp(-x^2 / 2) / sqrt(2 pi))`.",
                   .source = "Hendrycks and Gimpel, \"Gaussian error linear units\", arXiv 1606.08415; PyTorch's GELU "
                             "without `approximate`.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "gelu" type: "GELU" bottom: "x" top: "gelu" })"}};
}

}  // namespace moka
