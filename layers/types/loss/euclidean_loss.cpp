// sum (a - b)^2 / (2N), N the batch; with a third bottom (Greentea) differences are scaled by it and N is the count.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// Greentea's gradient is that of the scaled differences, not of their squares.
void BuildScaled(LayerBuilder& l, const Shape& x) {
  const GraphBuilder& b = l.b();
  const ValueId a = l.bottom(0);
  const ValueId other = b.Reshape(l.bottom(1), x);
  const ValueId scale = Constant(l, Like0(l, 2));
  const std::string count = StrCat(x.Count());
  const ValueId sum = SumOf(l, "(x0-x1)*(x0-x1)*x2*x2", {a, other, scale});
  const ValueId loss = b.Pointwise(StrCat("x0/(2*", count, ")"), {sum});
  const ValueId da = b.Pointwise(StrCat("(x0-x1)*x2/", count), {a, other, scale});
  l.SetTop(0, WithGradients(l, loss, {{a, da}, {other, b.Pointwise("-x0", {da})}}));
  l.SetLoss(0, 1);
}

void BuildEuclideanLoss(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const Shape y = l.shape(1);
  l.Check(x.rank() >= 1 && y.rank() >= 1 && x[0] == y[0] && x.Count() == y.Count(), "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 y.ToString(), " must have one batch and one count"));
  if (l.bottom_count() == 3) return BuildScaled(l, x);
  const GraphBuilder& b = l.b();
  Ints axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  const ValueId sum = b.Add1("reduce_sum", {l.bottom(0), b.Reshape(l.bottom(1), x)},
                             {{"expr", std::string("(x0-x1)*(x0-x1)")}, {"axes", axes}});
  l.SetTop(0, b.Pointwise(StrCat("x0/", (Size(2) * x[0]).value()), {b.Reshape(sum, Shape{})}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef EuclideanLossLayer() {
  return {
      .type = "EuclideanLoss",
      .doc =
          "The sum of squared differences of the bottoms divided by twice the batch; both get a gradient. A third "
          "bottom scales the differences; the divisor is then twice the number of elements.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .auto_tops = true,
      .build = BuildEuclideanLoss,
      .page = {.params = {},
               .formula =
                   "`y = sum of (a - b)^2 / (2 N)`, a scalar; N is a's first dimension. a and b have one "
                   "first dimension and one number of elements. Its loss weight is 1 unless given.\n\nWith bottom 2, s "
                   "of a's count M: `y = sum of ((a - b) * s)^2 / (2 M)`.",
               .gradient =
                   "`da = dy * (a - b) / N`, `db = -da`: both bottoms get one. With bottom 2 `da = dy * (a - b) * s "
                   "/ M`; s gets none.",
               .source = "BVLC Caffe's euclidean_loss_layer; the third bottom, its divisor and its gradient are "
                         "Greentea's (which divides by the count with two bottoms too).",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "loss"
  type: "EuclideanLoss"
  bottom: "a"
  bottom: "b"
  top: "loss"
})"}};
}

}  // namespace moka
