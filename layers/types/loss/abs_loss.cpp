// Losses of differences: AbsLoss (Garg's unsupervised depth), DiceCoefLoss (HolmesShuan's, of EAST's nets).
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// Where the difference is 0 the gradient is that of a negative one.
void BuildAbs(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const ValueId other = Like0(l, 1);
  const int64_t batch = l.shape(0)[0];
  const ValueId sum = SumOf(l, "abs(x0-x1)", {Constant(l, l.bottom(0)), Constant(l, other)});
  const ValueId da = b.Pointwise(StrCat("select(gt(x0,x1),1,-1)/", batch), {l.bottom(0), other});
  const ValueId loss = b.Pointwise(StrCat("x0/", batch), {sum});
  l.SetTop(0, WithGradients(l, loss, {{l.bottom(0), da}, {other, b.Pointwise("-x0", {da})}}));
  l.SetLoss(0, 1);
}

// The value has the items' absolute coefficients, the gradient is that of the coefficients.
void BuildDiceCoef(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const ValueId other = Like0(l, 1);
  const int64_t batch = l.shape(0)[0];
  const Shape rows{batch, l.shape(0).Count() / batch};
  const std::vector<ValueId> items{b.Reshape(l.bottom(0), rows), b.Reshape(other, rows)};
  const auto sum = [&](const char* expr) {
    return b.Add1("reduce_sum", items, {{"expr", std::string(expr)}, {"axes", Ints{1}}});
  };
  const ValueId coefficients = b.Pointwise("(2*x0+1)/(x1+1)", {sum("x0*x1"), sum("x0*x0+x1*x1")});
  const auto loss = [&](const char* term) {
    return b.Pointwise(StrCat("1-x0/", batch), {SumOf(l, term, {coefficients})});
  };
  const ValueId carrier = loss("x0");
  l.SetTop(0, b.Pointwise("x0+(x1-x2)", {Constant(l, loss("abs(x0)")), carrier, Constant(l, carrier)}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef AbsLossLayer() {
  return {
      .type = "AbsLoss",
      .doc =
          "The sum of the absolute differences of two bottoms over the batch's size. The second bottom must have the "
          "first's batch and count. No fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildAbs,
      .page = {.params = {},
               .formula = "`y = sum of |a - b| / N`, a scalar. Its loss weight is 1 unless given.",
               .gradient = "`da = dy / N` where `a > b`, else `-dy / N`; `db = -da`.",
               .source = "Unsupervised CNN for single view depth estimation (Garg et al., arXiv 1603.04992), "
                         "abs_loss_layer of its Caffe.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "loss" type: "AbsLoss" bottom: "a" bottom: "b" top: "loss" })"}};
}

LayerDef DiceCoefLossLayer() {
  return {
      .type = "DiceCoefLoss",
      .doc =
          "1 minus the mean over the batch of a Dice coefficient of the bottoms' items, for numbers that are not only "
          "0 and 1. The second bottom must have the first's batch and count. No fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildDiceCoef,
      .page = {.params = {},
               .formula = "`y = 1 - sum of |r_n| / N`, a scalar, `r_n = (2 a_n.b_n + 1) / (a_n.a_n + b_n.b_n + 1)` of "
                          "items a_n and b_n. Its loss weight is 1 unless given.",
               .gradient = "`da_n = dy * 2 (r_n a_n - b_n) / (N (a_n.a_n + b_n.b_n + 1))`, and likewise db_n: the sign "
                           "of r_n is left out.",
               .source = "A variation of the Dice coefficient loss (HolmesShuan), dice_coef_loss_layer, which EAST's "
                         "nets in Caffe name.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "loss" type: "DiceCoefLoss" bottom: "a" bottom: "b" top: "loss" })"}};
}

}  // namespace moka
