// y = x if x > 0, else alpha * (exp(x) - 1) (Clevert et al., arXiv 1511.07289), times NVIDIA's lambda (SELU).
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const double alpha = Finite(l, "elu_param.alpha", l.param().elu_param().alpha());
  const double lambda = Finite(l, "elu_param.lambda", l.param().elu_param().lambda());
  const std::string elu = StrCat("select(gt(x0,0),x0,", Number(alpha), "*(exp(x0)-1))");
  l.SetTop(0, l.b().Pointwise(lambda == 1 ? elu : StrCat(Number(lambda), "*", elu), {l.bottom(0)}));
}

}  // namespace

LayerDef EluLayer() {
  return {.type = "ELU", .doc = "lambda * (x if x > 0, else alpha * (exp(x) - 1)); lambda is 1.", .build = Build};
}

}  // namespace moka
