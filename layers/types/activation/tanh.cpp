// y = tanh(x).
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildTanh(LayerBuilder& l) { l.SetTop(0, Tanh(l.Bottom(0))); }

}  // namespace

LayerDef TanHLayer() { return {.type = "TanH", .build = BuildTanh, .traits = {.top_shape = TopShape::kOfBottoms}}; }

}  // namespace moka
