// y = base^(shift + scale * x).
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildExp(LayerBuilder& l) {
  const ExpParameter& p = l.param().exp_param();
  const double base = Finite(l, "exp_param.base", p.base());
  l.Check(base > 0 || base == -1, "exp_param.base",
          StrCat("exp_param.base must be positive, or -1 for e, found ", base));
  const double log_base = base == -1 ? 1 : std::log(base);
  const double inner = log_base * Finite(l, "exp_param.scale", p.scale());
  const double outer = std::exp(log_base * Finite(l, "exp_param.shift", p.shift()));
  l.Check(std::isfinite(outer), "exp_param.shift", "base^shift is not finite");
  const Term x = l.Bottom(0);
  const Term power = Exp(inner == 1 ? x : Decimal(inner) * x);
  l.SetTop(0, outer == 1 ? power : Decimal(outer) * power);
}

}  // namespace

LayerDef ExpLayer() {
  return {.type = "Exp", .build = BuildExp, .traits = {.top_shape = TopShape::kOfBottoms}, .params = {"exp_param"}};
}

}  // namespace moka
