// y = x + bias, the bias laid along some axes of x.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/maths/broadcast_operand.h"

namespace moka {
namespace {

void BuildBias(LayerBuilder& l) {
  const BiasParameter& p = l.param().bias_param();
  BroadcastOperand bias = ReadOperand(l, {"bias_param", p.axis(), p.num_axes()});
  if (bias.value == kNoId) {
    bias.value = l.AddBlob(0, bias.shape, p.filler(), ParameterRole::kBias, "bias_param.filler");
  }
  const Shape spread = Spread(bias.shape, bias.axis, l.shape(0).rank());
  l.SetTop(0, l.b().Pointwise("x0+x1", {l.bottom(0), l.b().Reshape(bias.value, spread)}));
}

}  // namespace

LayerDef BiasLayer() {
  return {.type = "Bias",
          .max_bottoms = 2,
          .build = BuildBias,
          .traits = {.top_shape = TopShape::kOfFirst, .drawn_as = DrawnAs::kScaling},
          .params = {"bias_param"}};
}

}  // namespace moka
