// y = x P(X <= x) of a normal X (Hendrycks and Gimpel, arXiv 1606.08415), exact, not its approximation by tanh.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildGelu(LayerBuilder& l) {
  const Term x = l.Bottom(0);
  l.SetTop(0, 0.5 * x * (1 + Erf(x * 0.7071067811865476)));
}

}  // namespace

LayerDef GeluLayer() { return {.type = "GELU", .build = BuildGelu}; }

}  // namespace moka
