// Contrastive loss of pairs (Hadsell et al. 2006): d^2 of similar pairs and max(margin - d, 0)^2 of the others, summed
// and divided by 2N. The gradient of the latter is Caffe's, with d + 1e-4 as divisor: where a pair coincides it is 0.
// CaffeExp, of the time before the layer was put right, has max(margin - d^2, 0); its nets give a fourth bottom, which
// its layer does not read, and name the right one MineContrastiveLoss.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// divisor: of the gradient of a pair that is not similar, x0 its squared distance.
void BuildContrastive(LayerBuilder& l, const std::string& margin, bool is_legacy, const std::string& divisor) {
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
  const std::string gap = StrCat("t0=", margin, is_legacy ? "-x0;" : "-sqrt(x0);");
  const std::string apart = is_legacy ? "max(t0,0)" : "max(t0,0)*max(t0,0)";
  const std::string slope = is_legacy ? "gt(t0,0)" : "max(t0,0)/" + divisor;
  const ValueId sum = SumOf(l, StrCat(gap, "select(", is_similar, ",x0,", apart, ")"), {square, similar});
  // Of the sum over 2: factor * (x - y) for x, its negative for y.
  const ValueId factor = b.Pointwise(StrCat(gap, "select(", is_similar, ",1,-", slope, ")"), {square, similar});
  const ValueId dx = b.Pointwise("x0*(x1-x2)", {factor, x, y});
  const ValueId half = b.Pointwise("x0/2", {sum});
  const ValueId loss = WithGradients(l, half, {{x, dx}, {y, b.Pointwise("-x0", {dx})}});
  l.SetTop(0, b.Pointwise(StrCat("x0/", count), {loss}));
  l.SetLoss(0, 1);
}

void BuildContrastive(LayerBuilder& l) {
  const ContrastiveLossParameter& p = l.param().contrastive_loss_param();
  l.Check(l.bottom_count() == 3 || !p.has_legacy_version() || p.legacy_version(),
          "contrastive_loss_param.legacy_version",
          "a fourth bottom belongs to the version of the layer that legacy_version names");
  BuildContrastive(l, Number(Finite(l, "contrastive_loss_param.margin", p.margin())),
                   p.legacy_version() || l.bottom_count() == 4, "(sqrt(x0)+1e-4)");
}

void BuildMine(LayerBuilder& l) {
  const ContrastiveLossParameter& p = l.param().mine_contrastive_loss_param();
  l.Check(!p.has_legacy_version(), "mine_contrastive_loss_param.legacy_version",
          "MineContrastiveLoss has no legacy_version");
  BuildContrastive(l, Number(Finite(l, "mine_contrastive_loss_param.margin", p.margin())), false,
                   "select(gt(x0,0),sqrt(x0),1)");
}

}  // namespace

LayerDef ContrastiveLossLayer() {
  return {
      .type = "ContrastiveLoss",
      .doc =
          "Bottoms: x and y [N,C], similarity [N] (0: dissimilar). With d = |x - y|: the sum of d^2 of similar pairs "
          "and max(margin - d, 0)^2 of the others, divided by 2N; contrastive_loss_param.legacy_version has "
          "max(margin - d^2, 0) for the latter, and so has a layer with a fourth bottom, which is not read.",
      .min_bottoms = 3,
      .max_bottoms = 4,
      .auto_tops = true,
      .build = BuildContrastive,
      .page = {
          .params = {"contrastive_loss_param"},
          .formula =
              "With `d = |x_n - y_n|` of pair n: `loss = sum over n of e_n / (2 N)`, a scalar; `e = d^2` if the "
              "pair is similar, else `max(margin - d, 0)^2`, or with legacy_version or four bottoms `max(margin - d^2, "
              "0)`. A "
              "pair is similar if bottom 2's number has a whole part other than 0. x and y are [N,C] (later "
              "dimensions 1), margin is 1 unless given; the loss weight too.",
          .gradient = "Of a loss with gradient g: `dx = g * (x - y) / N` for similar pairs; `-g * max(margin - d, 0) / "
                      "(d + 1e-4) * (x - y) / N` for the others, or with legacy_version `-g * (x - y) / N` where `d^2 "
                      "< margin`, else 0. `dy = -dx`. Bottom 2 gets none.",
          .source =
              "Dimensionality reduction by learning an invariant mapping (Hadsell, Chopra, LeCun, 2006); BVLC Caffe's "
              "contrastive_loss_layer, whose gradient has d + 1e-4 as divisor: where a pair coincides it is 0. "
              "The fourth bottom is that of CaffeExp's nets.",
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

LayerDef MineContrastiveLossLayer() {
  return {
      .type = "MineContrastiveLoss",
      .doc =
          "ContrastiveLoss with fields of another name (mine_contrastive_loss_param.margin, default 1) and the exact "
          "gradient. A fourth bottom is not read.",
      .min_bottoms = 3,
      .max_bottoms = 4,
      .auto_tops = true,
      .build = BuildMine,
      .page = {
          .params = {"mine_contrastive_loss_param"},
          .formula =
              "With `d = |x_n - y_n|` of pair n: `loss = sum over n of e_n / (2 N)`, a scalar; `e = d^2` if bottom "
              "2's number has a whole part other than 0, else `max(margin - d, 0)^2`. x and y are [N,C]; the loss "
              "weight is 1 unless given.",
          .gradient =
              "Of a loss with gradient g: `dx = g * (x - y) / N` for similar pairs, else `-g * max(margin - d, 0) "
              "/ d * (x - y) / N`, 0 where `d = 0` (the original divides by 0). `dy = -dx`. Bottoms 2 and 3 get "
              "none.",
          .source = "mine_contrastive_loss_layer of CaffeExp, of the time when Caffe's own layer had another formula.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "y" type: "Input" top: "y" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "similar" type: "Input" top: "similar" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "MineContrastiveLoss"
  bottom: "x"
  bottom: "y"
  bottom: "similar"
  top: "loss"
  mine_contrastive_loss_param { margin: 2 }
})"}};
}

}  // namespace moka
