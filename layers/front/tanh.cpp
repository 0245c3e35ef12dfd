// y = tanh(x).
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("tanh(x0)", {l.bottom(0)})); }

}  // namespace

LayerDef TanHLayer() { return {.type = "TanH", .doc = "The hyperbolic tangent.", .build = Build}; }

}  // namespace moka
