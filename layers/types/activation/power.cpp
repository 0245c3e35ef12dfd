// y = (shift + scale * x)^power.
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPower(LayerBuilder& l) {
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

LayerDef PowerLayer() {
  return {
      .type = "Power",
      .doc = "(shift + scale * x)^power of each element; the top has the bottom's shape.",
      .build = BuildPower,
      .page = {
          .params = {"power_param"},
          .formula = "`y = (shift + scale * x)^power`, element by element; y has the shape of x. Defaults: power 1, "
                     "scale 1, shift 0. With power 0 y is 1 and with scale 0 it is `shift^power`, whatever x is (also "
                     "where x is not finite).",
          .gradient = "x: `dx = dy * power * scale * (shift + scale * x)^(power - 1)`; none if power or scale is 0.",
          .source = "BVLC Caffe's power_layer. `shift^power` must be finite where scale is 0.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "power"
  type: "Power"
  bottom: "x"
  top: "power"
  power_param { power: 2 scale: 0.5 shift: 1 }
})"}};
}

}  // namespace moka
