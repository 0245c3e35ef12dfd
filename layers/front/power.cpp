// y = (shift + scale * x)^power.
#include <cmath>

#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const PowerParameter& p = l.param().power_param();
  const double power = Finite(l, "power_param.power", p.power());
  const double scale = Finite(l, "power_param.scale", p.scale());
  const double shift = Finite(l, "power_param.shift", p.shift());
  std::string inner = scale == 1 ? "x0" : StrCat(Number(scale), "*x0");
  if (shift != 0) inner += StrCat("+", Number(shift));
  inner = StrCat("(", inner, ")");
  std::string text;
  if (power == 0 || scale == 0) {  // constant: Caffe gives it no gradient
    const double value = power == 0 ? 1 : std::pow(shift, power);
    l.Check(std::isfinite(value), "power_param.shift",
            StrCat("shift^power is not finite for scale 0: ", shift, "^", power));
    l.SetTop(0, l.b().Full(l.shape(0), value));
    return;
  }
  if (power == 1)
    text = inner;
  else if (power == 2)
    text = StrCat(inner, "*", inner);
  else if (power == 0.5)
    text = StrCat("sqrt", inner);
  else if (power == -1)
    text = StrCat("1/", inner);
  else
    text = StrCat("pow(", inner, ",", Number(power), ")");
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0)}));
}

}  // namespace

LayerDef PowerLayer() { return {.type = "Power", .doc = "(shift + scale * x)^power.", .build = Build}; }

}  // namespace moka
