// Contrastive loss of pairs (Hadsell et al. 2006): d^2 of similar pairs and max(margin - d, 0)^2 of the others, summed
// and divided by 2N. The gradient of the latter is Caffe's, with d + 1e-4 as divisor: where a pair coincides it is 0.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const ContrastiveLossParameter& p = l.param().contrastive_loss_param();
  const std::string margin = Number(Finite(l, "contrastive_loss_param.margin", p.margin()));
  const GraphBuilder& b = l.b();
  const ValueId x = Vectors(l, 0);
  const ValueId y = Vectors(l, 1);
  const int64_t count = l.shape(0)[0];
  l.Check(l.shape(2).Count() == count, "bottom[2]",
          StrCat("bottom \"", l.param().bottom(2), "\" must have one value for each of the ", count, " pairs, found ",
                 l.shape(2).ToString()));
  const ValueId similar = b.Reshape(l.bottom(2), {count, 1});
  const ValueId square =
      b.Add1("reduce_sum", {x, y}, {{"expr", std::string("(x0-x1)*(x0-x1)")}, {"axes", Ints{1}}});  // [N,1]
  // x0 is |x-y|^2; Caffe's similarity is the integer part.
  const std::string is_similar = "ge(abs(x1),1)";
  const std::string gap = StrCat("t0=", margin, p.legacy_version() ? "-x0;" : "-sqrt(x0);");
  const std::string apart = p.legacy_version() ? "max(t0,0)" : "max(t0,0)*max(t0,0)";
  const std::string slope = p.legacy_version() ? "gt(t0,0)" : "max(t0,0)/(sqrt(x0)+1e-4)";
  const ValueId sum = SumOf(l, StrCat(gap, "select(", is_similar, ",x0,", apart, ")"), {square, similar});
  // Of the sum over 2: factor * (x - y) for x, its negative for y.
  const ValueId factor = b.Pointwise(StrCat(gap, "select(", is_similar, ",1,-", slope, ")"), {square, similar});
  const ValueId dx = b.Pointwise("x0*(x1-x2)", {factor, x, y});
  const ValueId half = b.Pointwise("x0/2", {sum});
  const ValueId loss = WithGradients(l, half, {{x, dx}, {y, b.Pointwise("-x0", {dx})}});
  l.SetTop(0, b.Pointwise(StrCat("x0/", count), {loss}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef ContrastiveLossLayer() {
  return {
      .type = "ContrastiveLoss",
      .doc =
          "Bottoms: x and y [N,C], similarity [N] (0: dissimilar). With d = |x - y|: the sum of d^2 of similar pairs "
          "and max(margin - d, 0)^2 of the others, divided by 2N; contrastive_loss_param.legacy_version has "
          "max(margin - d^2, 0) for the latter.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .auto_tops = true,
      .build = Build,
      .page = {
          .params = {"contrastive_loss_param"},
          .formula = "With `d = |x_n - y_n|` of pair n: `loss = sum over n of e_n / (2 N)`, a scalar; `e = d^2` if the "
                     "pair is similar, else `max(margin - d, 0)^2`, or with legacy_version `max(margin - d^2, 0)`. A "
                     "pair is similar if bottom 2's number has a whole part other than 0. x and y are [N,C] (later "
                     "dimensions 1), margin is 1 unless given; the loss weight too.",
          .gradient = "Of a loss with gradient g: `dx = g * (x - y) / N` for similar pairs; `-g * max(margin - d, 0) / "
                      "(d + 1e-4) * (x - y) / N` for the others, or with legacy_version `-g * (x - y) / N` where `d^2 "
                      "< margin`, else 0. `dy = -dx`. Bottom 2 gets none.",
          .source =
              "Dimensionality reduction by learning an invariant mapping (Hadsell, Chopra, LeCun, 2006); BVLC Caffe's "
              "contrastive_loss_layer, whose gradient has d + 1e-4 as divisor: where a pair coincides it is 0.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "similar" type: "Input" top: "similar" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "ContrastiveLoss"
  bottom: "x"
  bottom: "y"
  bottom: "similar"
  top: "loss"
  contrastive_loss_param { margin: 2 }
})"}};
}

}  // namespace moka
