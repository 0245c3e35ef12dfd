// -log p[label] of probabilities, divided by the batch. Caffe bounds p by 1e-20 from below, in the gradient 1/p too.
#include "core/text.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const auto [rows, mask, count] = RowsWithLabels(l);
  const ValueId sum = SumOf(l, "-x1*log(max(x0,1e-20))", {rows, mask});
  const ValueId dx = l.b().Pointwise("-x1/max(x0,1e-20)", {rows, mask});
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", count), {WithGradients(l, sum, {{rows, dx}})}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MultinomialLogisticLossLayer() {
  return {.type = "MultinomialLogisticLoss",
          .doc =
              "Bottoms: probabilities [N, ...] of K classes, labels [N]. The mean of -log(max(p[label], 1e-20)). "
              "SoftmaxWithLoss is the same with the softmax inside, and more exact.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = Build};
}

}  // namespace moka
