// y = log(1 + exp(x)), written so that neither sign of x overflows.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildBnll(LayerBuilder& l) {
  const Term x = l.Bottom(0);
  l.SetTop(0, Select(x > 0, x + Log(1 + Exp(-x)), Log(1 + Exp(x))));
}

}  // namespace

LayerDef BnllLayer() { return {.type = "BNLL", .build = BuildBnll, .traits = {.top_shape = TopShape::kOfBottoms}}; }

}  // namespace moka
