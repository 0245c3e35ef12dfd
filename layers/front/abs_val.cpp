// y = |x|.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("abs(x0)", {l.bottom(0)})); }

}  // namespace

LayerDef AbsValLayer() { return {.type = "AbsVal", .doc = "The absolute value.", .build = Build}; }

}  // namespace moka
