// y = 1 / (1 + exp(-x)).
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("sigmoid(x0)", {l.bottom(0)})); }

}  // namespace

LayerDef SigmoidLayer() { return {.type = "Sigmoid", .doc = "1 / (1 + exp(-x)).", .build = Build}; }

}  // namespace moka
