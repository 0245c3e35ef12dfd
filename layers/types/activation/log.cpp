// y = log_base(shift + scale * x).
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildLog(LayerBuilder& l) {
  const LogParameter& p = l.param().log_param();
  const double base = Finite(l, "log_param.base", p.base());
  l.Check((base > 0 && base != 1) || base == -1, "log_param.base",
          StrCat("log_param.base must be positive and not 1, or -1 for e, found ", base));
  const double scale = Finite(l, "log_param.scale", p.scale());
  const double shift = Finite(l, "log_param.shift", p.shift());
  const std::string text = StrCat("log(", Number(scale), "*x0+", Number(shift), ")");
  l.SetTop(0, l.b().Pointwise(base == -1 ? text : StrCat(text, "/", Number(std::log(base))), {l.bottom(0)}));
}

}  // namespace

LayerDef LogLayer() {
  return {.type = "Log",
          .doc =
              "log_base(shift + scale * x) of each element; base -1, the default, stands for e. The top has the "
              "bottom's shape.",
          .build = BuildLog,
          .page = {.params = {"log_param"},
                   .formula =
                       "`y = log(shift + scale * x) / log(base)`, element by element; base -1 (the default) stands for "
                       "e, any other must be positive and not 1; scale is 1 and shift 0 unless given. y has x's shape.",
                   .gradient = "`dx = dy * scale / ((shift + scale * x) * log(base))`.",
                   .source = "BVLC Caffe's log_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "log" type: "Log" bottom: "x" top: "log" log_param { base: 10 shift: 1 } })"}};
}

}  // namespace moka
