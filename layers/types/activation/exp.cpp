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
  const std::string power = inner == 1 ? "exp(x0)" : StrCat("exp(", Number(inner), "*x0)");
  l.SetTop(0, l.b().Pointwise(outer == 1 ? power : StrCat(Number(outer), "*", power), {l.bottom(0)}));
}

}  // namespace

LayerDef ExpLayer() {
  return {.type = "Exp",
          .doc =
              "base^(shift + scale * x) of each element; base -1, the default, stands for e. The top has the bottom's "
              "shape.",
          .build = BuildExp,
          .page = {.params = {"exp_param"},
                   .formula = "`y = base^(shift + scale * x)`, element by element; base -1 (the default) stands for e, "
                              "any other must be positive; scale is 1 and shift 0 unless given. y has x's shape.",
                   .gradient = "`dx = dy * y * scale * log(base)`.",
                   .source = "BVLC Caffe's exp_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "exp" type: "Exp" bottom: "x" top: "exp" exp_param { base: 2 scale: 0.5 } })"}};
}

}  // namespace moka
