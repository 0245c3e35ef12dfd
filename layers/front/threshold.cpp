// y = 1 if x > threshold, else 0; no gradient.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const double threshold = Finite(l, "threshold_param.threshold", l.param().threshold_param().threshold());
  l.SetTop(0, l.b().Pointwise(StrCat("gt(x0,", Number(threshold), ")"), {l.bottom(0)}));
}

}  // namespace

LayerDef ThresholdLayer() {
  return {.type = "Threshold", .doc = "1 if x > threshold, else 0; no gradient.", .build = Build};
}

}  // namespace moka
