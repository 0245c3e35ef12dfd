// sum (a - b)^2 / (2N), N the batch; with a third bottom (Greentea) differences are scaled by it and N is the count.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// Greentea's gradient is that of the scaled differences, not of their squares.
void BuildScaled(LayerBuilder& l, const Shape& x) {
  const GraphBuilder& b = l.b();
  const ValueId a = l.bottom(0);
  const ValueId other = b.Reshape(l.bottom(1), x);
  const ValueId scale = Constant(l, Like0(l, 2));
  const int64_t count = x.Count();
  const ValueId sum = SumOf(l, "(x0-x1)*(x0-x1)*x2*x2", {a, other, scale});
  const ValueId loss = Computed(b, Term::Of(sum) / (2 * static_cast<double>(count)));
  const ValueId da = Computed(b, (Term::Of(a) - Term::Of(other)) * Term::Of(scale) / count);
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
  l.SetTop(0, Term::Of(b.Reshape(sum, Shape{})) / (Size(2) * x[0]).value());
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef EuclideanLossLayer() {
  return {.type = "EuclideanLoss",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = BuildEuclideanLoss,
          .traits = {.is_loss = true, .is_regression = true},
          .needs = NeedEqualCounts};
}

}  // namespace moka
