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
  const Term scale = Decimal(Finite(l, "log_param.scale", p.scale()));
  const Term shift = Decimal(Finite(l, "log_param.shift", p.shift()));
  const Term y = Log(scale * l.Bottom(0) + shift);
  l.SetTop(0, base == -1 ? y : y / Decimal(std::log(base)));
}

}  // namespace

LayerDef LogLayer() {
  return {.type = "Log", .build = BuildLog, .traits = {.top_shape = TopShape::kOfBottoms}, .params = {"log_param"}};
}

}  // namespace moka
