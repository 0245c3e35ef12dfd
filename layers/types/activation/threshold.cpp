// y = 1 if x > threshold, else 0; no gradient.
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildThreshold(LayerBuilder& l) {
  const double threshold = Finite(l, "threshold_param.threshold", l.param().threshold_param().threshold());
  l.SetTop(0, l.Bottom(0) > Decimal(threshold));
}

}  // namespace

LayerDef ThresholdLayer() {
  return {.type = "Threshold",
          .build = BuildThreshold,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .params = {"threshold_param"}};
}

}  // namespace moka
