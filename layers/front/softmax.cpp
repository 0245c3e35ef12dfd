// y = exp(x) / sum of exp(x) along an axis.
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), l.shape(0));
  l.SetTop(0, l.b().Add1("softmax", {l.bottom(0)}, {{"axis", int64_t{axis}}}));
}

}  // namespace

LayerDef SoftmaxLayer() {
  return {.type = "Softmax", .doc = "exp(x) divided by its sum along the axis.", .build = Build};
}

}  // namespace moka
