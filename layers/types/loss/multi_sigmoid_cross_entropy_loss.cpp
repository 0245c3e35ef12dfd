// The sigmoid cross entropy of many yes-no labels of which some are unknown (DRML, Zhao et al., CVPR 2016): labels
// above 0 are yes, below 0 no, and 0 makes no loss.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildMultiSigmoidCrossEntropyLoss(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const ValueId label = Constant(l, Like0(l, 1));
  // log(1 + exp(x)) - x * yes, without overflow.
  const ValueId sum = SumOf(l, "select(eq(x1,0),0,max(x0,0)-x0*gt(x1,0)+log(1+exp(-abs(x0))))", {l.bottom(0), label});
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", x[0]), {sum}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MultiSigmoidCrossEntropyLossLayer() {
  return {
      .type = "MultiSigmoidCrossEntropyLoss",
      .doc =
          "The cross entropy of sigmoid(x) over all values, divided by the batch; labels above 0 are yes, below 0 no, "
          "and where one is 0 there is no loss.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildMultiSigmoidCrossEntropyLoss,
      .page = {
          .formula = "`y = -sum of (log(sigmoid(x)) where t > 0, log(1 - sigmoid(x)) where t < 0) / N`, a scalar; t "
                     "has x's batch N and count. Its loss weight is 1 unless given.",
          .gradient = "`dx = dy * (sigmoid(x) - (t > 0)) / N` where t is not 0, else 0. Labels get none.",
          .source = "Deep region and multi-label learning for facial action unit detection (Zhao, Chu, Zhang, CVPR "
                    "2016); its multi_sigmoid_cross_entropy_loss_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "loss" type: "MultiSigmoidCrossEntropyLoss" bottom: "x" bottom: "label" top: "loss" })"}};
}

}  // namespace moka
