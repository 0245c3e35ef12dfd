// One-against-all hinge loss: sum of max(0, 1 - t*x) (or its squares) over classes, t = 1 at the label, else -1;
// divided by the batch.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildHingeLoss(LayerBuilder& l) {
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
      .build = BuildHingeLoss,
      .page = {
          .params = {"hinge_loss_param"},
          .formula = "Bottom 0 is N rows of K classes (K: all its dimensions but the first), bottom 1 has N labels "
                     "from 0 to K - 1. With `t[n,k]` 1 at the label and -1 elsewhere, and `h = max(0, 1 - t * x)`: `y "
                     "= sum of h / N`, with norm L2 `y = sum of h^2 / N`; a scalar. Its loss weight is 1 unless given.",
          .gradient = "L1: `dx = -dy * t / N` where `h > 0`, else 0. L2: `dx = -2 * dy * t * h / N`. Labels get none.",
          .source = "BVLC Caffe's hinge_loss_layer.",
          .example = R"(layer { name: "score" type: "Input" top: "score" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "HingeLoss"
  bottom: "score"
  bottom: "label"
  top: "loss"
  hinge_loss_param { norm: L2 }
})"}};
}

}  // namespace moka
