// y = |x|.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildAbsVal(LayerBuilder& l) { l.SetTop(0, Abs(l.Bottom(0))); }

}  // namespace

LayerDef AbsValLayer() {
  return {.type = "AbsVal", .build = BuildAbsVal, .traits = {.top_shape = TopShape::kOfBottoms}};
}

}  // namespace moka
