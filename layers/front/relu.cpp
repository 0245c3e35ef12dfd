// y = x if x > 0, else negative_slope * x.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const double slope = Finite(l, "relu_param.negative_slope", l.param().relu_param().negative_slope());
  if (l.param().relu_param().relu6()) {
    l.Check(slope == 0, "relu_param.negative_slope", "relu6 has no negative slope");
    return l.SetTop(0, l.b().Pointwise("min(max(x0,0),6)", {l.bottom(0)}));
  }
  const std::string text = slope == 0 ? "max(x0,0)" : StrCat("select(gt(x0,0),x0,", Number(slope), "*x0)");
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0)}));
}

}  // namespace

LayerDef ReLULayer() { return {.type = "ReLU", .doc = "x if x > 0, else negative_slope * x.", .build = Build}; }

}  // namespace moka
