// y = x if x > 0, else alpha * (exp(x) - 1) (Clevert et al., arXiv 1511.07289), times NVIDIA's lambda (SELU).
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildElu(LayerBuilder& l) {
  const Term alpha = Decimal(Finite(l, "elu_param.alpha", l.param().elu_param().alpha()));
  const double lambda = Finite(l, "elu_param.lambda", l.param().elu_param().lambda());
  const Term x = l.Bottom(0);
  const Term elu = Select(x > 0, x, alpha * (Exp(x) - 1));
  l.SetTop(0, lambda == 1 ? elu : Decimal(lambda) * elu);
}

}  // namespace

LayerDef EluLayer() {
  return {.type = "ELU", .build = BuildElu, .traits = {.top_shape = TopShape::kOfBottoms}, .params = {"elu_param"}};
}

}  // namespace moka
