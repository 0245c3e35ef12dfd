// y = log(1 + exp(x)), written so that neither sign of x overflows.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  l.SetTop(0, l.b().Pointwise("select(gt(x0,0),x0+log(1+exp(-x0)),log(1+exp(x0)))", {l.bottom(0)}));
}

}  // namespace

LayerDef BnllLayer() { return {.type = "BNLL", .doc = "log(1 + exp(x)).", .build = Build}; }

}  // namespace moka
