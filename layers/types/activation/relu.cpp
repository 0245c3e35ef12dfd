// y = x if x > 0, else negative_slope * x; and where x > 0 (DecoupledNet).
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRelu(LayerBuilder& l) {
  const Term x = l.Bottom(0);
  if (l.top_count() > 1) l.SetTop(1, x > 0);
  const double slope = Finite(l, "relu_param.negative_slope", l.param().relu_param().negative_slope());
  if (l.param().relu_param().relu6()) {
    l.Check(slope == 0, "relu_param.negative_slope", "relu6 has no negative slope");
    return l.SetTop(0, Min(Max(x, 0), 6));
  }
  l.SetTop(0, slope == 0 ? Max(x, 0) : Select(x > 0, x, Decimal(slope) * x));
}

}  // namespace

LayerDef ReLULayer() {
  return {.type = "ReLU",
          .max_tops = 2,
          .build = BuildRelu,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .params = {"relu_param"}};
}

}  // namespace moka
