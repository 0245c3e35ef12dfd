// min(ReLU(x), 6) (MobileNet's activation); no gradient from 6 on.
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRelu6(LayerBuilder& l) {
  const double slope = Finite(l, "relu6_param.negative_slope", l.param().relu6_param().negative_slope());
  const Term x = l.Bottom(0);
  const Term relu = slope == 0 ? Max(x, 0) : Select(x > 0, x, Decimal(slope) * x);
  l.SetTop(0, Select(x < 6, relu, 6));
}

}  // namespace

LayerDef Relu6Layer() { return {.type = "ReLU6", .build = BuildRelu6, .params = {"relu6_param"}}; }

}  // namespace moka
