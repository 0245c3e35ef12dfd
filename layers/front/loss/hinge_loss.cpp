// One-against-all hinge loss: sum of max(0, 1 - t*x) (or its squares) over classes, t = 1 at the label, else -1;
// divided by the batch.
#include "core/text.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const auto [rows, mask, count] = RowsWithLabels(l);
  const bool squares = l.param().hinge_loss_param().norm() == HingeLossParameter::L2;
  const std::string expr = squares ? "t0=max(1+x0*(1-2*x1),0);t0*t0" : "max(1+x0*(1-2*x1),0)";
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", count), {SumOf(l, expr, {rows, mask})}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef HingeLossLayer() {
  return {
      .type = "HingeLoss",
      .doc =
          "Bottoms: scores [N, ...] of K classes, labels [N]. The sum over items and classes of max(0, 1 - t*x), t = "
          "1 for the labelled class and -1 for the others, divided by N; hinge_loss_param.norm L2 sums squares.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = Build};
}

}  // namespace moka
