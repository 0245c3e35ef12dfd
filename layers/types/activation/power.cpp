// y = (shift + scale * x)^power.
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

Term Raised(const Term& x, double power) {
  if (power == 1) return x;
  if (power == 2) return Square(x);
  if (power == 0.5) return Sqrt(x);
  if (power == -1) return 1 / x;
  return Pow(x, Decimal(power));
}

void BuildPower(LayerBuilder& l) {
  const PowerParameter& p = l.param().power_param();
  const double power = Finite(l, "power_param.power", p.power());
  const double scale = Finite(l, "power_param.scale", p.scale());
  const double shift = Finite(l, "power_param.shift", p.shift());
  if (power == 0 || scale == 0) {  // constant: Caffe gives it no gradient
    const double value = power == 0 ? 1 : std::pow(shift, power);
    l.Check(std::isfinite(value), "power_param.shift",
            StrCat("shift^power is not finite for scale 0: ", shift, "^", power));
    l.SetTop(0, l.b().Full(l.shape(0), value));
    return;
  }
  Term inner = scale == 1 ? l.Bottom(0) : Decimal(scale) * l.Bottom(0);
  if (shift != 0) inner = inner + Decimal(shift);
  l.SetTop(0, Raised(inner, power));
}

}  // namespace

LayerDef PowerLayer() {
  return {
      .type = "Power", .build = BuildPower, .traits = {.top_shape = TopShape::kOfBottoms}, .params = {"power_param"}};
}

}  // namespace moka
