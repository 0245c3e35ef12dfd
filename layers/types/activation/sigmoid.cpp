// y = 1 / (1 + exp(-x)).
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSigmoid(LayerBuilder& l) { l.SetTop(0, Sigmoid(l.Bottom(0))); }

}  // namespace

LayerDef SigmoidLayer() {
  return {.type = "Sigmoid", .build = BuildSigmoid, .traits = {.top_shape = TopShape::kOfBottoms}};
}

}  // namespace moka
