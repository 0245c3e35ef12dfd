// -log p[label] of probabilities, divided by the batch. Caffe bounds p by 1e-20 from below, in the gradient 1/p too.
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildMultinomialLogisticLoss(LayerBuilder& l) {
  const auto [rows, mask, count] = RowsWithLabels(l);
  const ValueId sum = SumOf(l, "-x1*log(max(x0,1e-20))", {rows, mask});
  const ValueId dx = l.b().Pointwise("-x1/max(x0,1e-20)", {rows, mask});
  l.SetTop(0, Term::Of(WithGradients(l, sum, {{rows, dx}})) / count);
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MultinomialLogisticLossLayer() {
  return {.type = "MultinomialLogisticLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildMultinomialLogisticLoss,
          .traits = {.is_loss = true, .is_negative_without = "probabilities, which a Softmax makes of scores"}};
}

}  // namespace moka
