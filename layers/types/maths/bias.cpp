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
  return {
      .type = "Bias",
      .doc =
          "x + bias, of x's shape; the bias is a trained blob over num_axes axes of the bottom from axis on, or the "
          "second bottom.",
      .max_bottoms = 2,
      .build = BuildBias,
      .page = {
          .params = {"bias_param"},
          .formula = "`y = x + b`, b laid along axes axis to axis + num_axes - 1 of x and repeated along the others; y "
                     "has x's shape.\n\nOne bottom: b is blob 0, of x's dimensions there (num_axes -1: to the last "
                     "axis; 0: a scalar), filled by filler (default 0). Two bottoms: b is bottom 1, whose shape equals "
                     "x's dimensions from axis on (a scalar fits everywhere), and num_axes is not used.",
          .gradient = "`dx = dy`; `db` = the sum of dy over the axes along which b is repeated, for the blob and for "
                      "bottom 1 alike.",
          .source = "BVLC Caffe's bias_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer {
  name: "bias"
  type: "Bias"
  bottom: "x"
  top: "bias"
  bias_param { axis: 1 num_axes: 1 filler { type: "constant" value: 0.5 } }
})"}};
}

}  // namespace moka
