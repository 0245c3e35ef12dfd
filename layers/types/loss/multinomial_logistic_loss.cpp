// -log p[label] of probabilities, divided by the batch. Caffe bounds p by 1e-20 from below, in the gradient 1/p too.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildMultinomialLogisticLoss(LayerBuilder& l) {
  const auto [rows, mask, count] = RowsWithLabels(l);
  const ValueId sum = SumOf(l, "-x1*log(max(x0,1e-20))", {rows, mask});
  const ValueId dx = l.b().Pointwise("-x1/max(x0,1e-20)", {rows, mask});
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", count), {WithGradients(l, sum, {{rows, dx}})}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MultinomialLogisticLossLayer() {
  return {
      .type = "MultinomialLogisticLoss",
      .doc =
          "Bottoms: probabilities [N, ...] of K classes, labels [N]. The mean of -log(max(p[label], 1e-20)). "
          "SoftmaxWithLoss is the same with the softmax inside, and more exact.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildMultinomialLogisticLoss,
      .page = {
          .params = {},
          .formula = "Bottom 0 is N rows of K probabilities (K: all its dimensions but the first), bottom 1 has N "
                     "labels from 0 to K - 1: `y = -sum over n of log(max(p[n,label_n], 1e-20)) / N`, a scalar. Its "
                     "loss weight is 1 unless given.",
          .gradient =
              "`dp[n,label_n] = -dy / (N * max(p[n,label_n], 1e-20))`, 0 for the other classes. Labels get none.",
          .source =
              "BVLC Caffe's multinomial_logistic_loss_layer, which bounds p by 1e-20 from below in the gradient too.",
          .example = R"(layer { name: "p" type: "Input" top: "p" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "MultinomialLogisticLoss"
  bottom: "p"
  bottom: "label"
  top: "loss"
})"}};
}

}  // namespace moka
