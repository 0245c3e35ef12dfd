// The sigmoid cross entropy of many yes-no labels of which some are unknown (DRML, Zhao et al., CVPR 2016): labels
// above 0 are yes, below 0 no, and 0 makes no loss.
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildMultiSigmoidCrossEntropyLoss(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const ValueId label = Constant(l, Like0(l, 1));
  // log(1 + exp(x)) - x * yes, without overflow.
  const ValueId sum = SumOf(l, "select(eq(x1,0),0,max(x0,0)-x0*gt(x1,0)+log(1+exp(-abs(x0))))", {l.bottom(0), label});
  l.SetTop(0, Term::Of(sum) / x[0]);
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MultiSigmoidCrossEntropyLossLayer() {
  return {.type = "MultiSigmoidCrossEntropyLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildMultiSigmoidCrossEntropyLoss,
          .traits = {.is_loss = true},
          .needs = NeedEqualCounts};
}

}  // namespace moka
