// y = x + bias, the bias laid along some axes of x.
#include "layers/front/broadcast_operand.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
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
  return {
      .type = "Bias",
      .doc = "x + bias; the bias is a trained blob over axes axis..axis+num_axes of the bottom, or the second bottom.",
      .max_bottoms = 2,
      .build = Build};
}

}  // namespace moka
