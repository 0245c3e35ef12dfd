// y = x * sigmoid(beta * x) (Ramachandran et al., arXiv 1710.05941).
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSwish(LayerBuilder& l) {
  const Term beta = Decimal(Finite(l, "swish_param.beta", l.param().swish_param().beta()));
  const Term x = l.Bottom(0);
  l.SetTop(0, x * Sigmoid(beta * x));
}

}  // namespace

LayerDef SwishLayer() { return {.type = "Swish", .build = BuildSwish, .params = {"swish_param"}}; }

}  // namespace moka
