// y = x * sigmoid(beta * x) (Ramachandran et al., arXiv 1710.05941).
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const double beta = Finite(l, "swish_param.beta", l.param().swish_param().beta());
  l.SetTop(0, l.b().Pointwise(StrCat("x0*sigmoid(", Number(beta), "*x0)"), {l.bottom(0)}));
}

}  // namespace

LayerDef SwishLayer() { return {.type = "Swish", .doc = "x * sigmoid(beta * x).", .build = Build}; }

}  // namespace moka
