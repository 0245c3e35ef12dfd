// Smooth L1 (Girshick, arXiv 1504.08083): with d = in * (a - b), e = (sigma d)^2 / 2 where |d| < 1/sigma^2, else |d| -
// 1/(2 sigma^2); out * e is summed. One formula serves SSD (no sigma, weights as a third bottom) and Fast R-CNN (sigma,
// inside and outside weights), both divided by the batch; R-FCN's OHEM layer divides as loss_param says and tells each
// instance's loss.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/loss/padding.h"

namespace moka {
namespace {

// The elementwise error as an expression of the inputs: a, b and the weights there are.
struct Errors {
  std::string expr;
  std::vector<ValueId> inputs;
};

Errors ErrorsOf(const LayerBuilder& l, double sigma) {
  Errors errors{l.bottom_count() > 2 ? "t0=x2*(x0-x1);" : "t0=x0-x1;", {l.bottom(0)}};
  for (int i = 1; i < l.bottom_count(); ++i) errors.inputs.push_back(i == 1 ? Like0(l, i) : Constant(l, Like0(l, i)));
  const double square = sigma * sigma;
  errors.expr += StrCat(l.bottom_count() > 3 ? "x3*" : "", "select(lt(abs(t0),", Number(1 / square), "),",
                        Number(0.5 * square), "*t0*t0,abs(t0)-", Number(0.5 / square), ")");
  return errors;
}

void BuildOhem(LayerBuilder& l) {
  const Errors errors = ErrorsOf(l, 1);
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  const ValueId each = b.Add1("reduce_sum", errors.inputs, {{"expr", errors.expr}, {"axes", Ints{1}}});
  const LossCounts counts{.batch = x[0], .positions = x.Count() / x[1]};
  l.SetTop(0, Normalized(l, SumOf(l, "x0", {each}), counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, Constant(l, each));
}

// With outside weights that may be padding, which are below 0: divided by the rows that are not.
void SetPaddedTop(LayerBuilder& l, const Errors& errors) {
  const Shape x = l.shape(0);
  const double columns = static_cast<double>(x.Count()) / static_cast<double>(x[0]);
  const std::string marked = StrCat(errors.expr.substr(0, errors.expr.rfind(';') + 1), "select(lt(x3,0),0,",
                                    errors.expr.substr(errors.expr.rfind(';') + 1), ")");
  const ValueId counted = SumOf(l, "select(lt(x0,0),0,1)", {errors.inputs[3]});
  l.SetTop(0,
           OverCount(l, SumOf(l, marked, errors.inputs), l.b().Pointwise(StrCat("x0/", Number(columns)), {counted})));
}

// Cascade R-CNN's second top: each row's loss [N,1,..], for hard mining.
void SetRowLosses(LayerBuilder& l, const Errors& errors) {
  l.Check(l.shape(0).rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", l.shape(0).ToString()));
  const ValueId each = l.b().Add1("reduce_sum", errors.inputs, {{"expr", errors.expr}, {"axes", Ints{1}}});
  l.SetTop(1, Constant(l, each));
}

void BuildSmoothL1Loss(LayerBuilder& l) {
  if (l.top_count() > 1 && !MayHavePaddedRows(l))
    return BuildOhem(l);  // R-FCN's first branch gave the plain type a second top
  const double sigma = Finite(l, "smooth_l1_loss_param.sigma", l.param().smooth_l1_loss_param().sigma());
  l.Check(sigma > 0, "smooth_l1_loss_param.sigma", StrCat("smooth_l1_loss_param.sigma must be above 0, found ", sigma));
  const Errors errors = ErrorsOf(l, sigma);
  if (MayHavePaddedRows(l) && l.bottom_count() > 3) {
    SetPaddedTop(l, errors);
  } else {
    l.SetTop(0, l.b().Pointwise(StrCat("x0/", l.shape(0)[0]), {SumOf(l, errors.expr, errors.inputs)}));
  }
  l.SetLoss(0, 1);
  if (l.top_count() > 1) SetRowLosses(l, errors);
}

}  // namespace

LayerDef SmoothL1LossLayer() {
  return {
      .type = "SmoothL1Loss",
      .doc =
          "Bottoms: predictions, targets, and optionally weights inside and outside the norm, all of one batch and "
          "count. With d = inside * (prediction - target): sum of outside * (0.5 (sigma d)^2 if |d| < 1/sigma^2, "
          "else |d| - 0.5/sigma^2), divided by the batch (the first dimension). smooth_l1_loss_param.sigma is 1 "
          "unless given (SSD has none). With a second top it is SmoothL1LossOHEM. In nets with a ProposalTarget layer "
          "(MS-CNN, Cascade R-CNN) rows whose outside weights are below 0 are padding and do not count, and a second "
          "top is each row's loss [N,1,..], without gradient.",
      .min_bottoms = 2,
      .max_bottoms = 4,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildSmoothL1Loss,
      .page = {
          .params = {"smooth_l1_loss_param"},
          .formula = "`d = inside * (a - b)`; `e = (sigma * d)^2 / 2` where `|d| < 1 / sigma^2`, else `|d| - 1 / (2 "
                     "sigma^2)`; `y = sum of outside * e / N`, a scalar. a and b are bottoms 0 and 1, inside and "
                     "outside bottoms 2 and 3, each 1 where absent; all have one first dimension N and one number of "
                     "elements. sigma is 1 unless given, the loss weight too.",
          .gradient = "`da = dy * outside * inside * sigma^2 * d / N` where `|d| < 1 / sigma^2`, else `dy * outside * "
                      "inside * sign(d) / N`; `db = -da`. The weights get none.",
          .source = "Fast R-CNN (Girshick, arXiv 1504.08083). One formula serves SSD's Caffe (Liu et al., arXiv "
                    "1512.02325; no sigma, three bottoms) and Fast R-CNN's smooth_L1_loss_layer (sigma, four bottoms).",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "inside" type: "Input" top: "inside" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "outside" type: "Input" top: "outside" input_param { shape { dim: 2 dim: 4 } } }
layer {
  name: "loss"
  type: "SmoothL1Loss"
  bottom: "a"
  bottom: "b"
  bottom: "inside"
  bottom: "outside"
  top: "loss"
  smooth_l1_loss_param { sigma: 3 }
})"}};
}

LayerDef SmoothL1LossOhemLayer() {
  return {
      .type = "SmoothL1LossOHEM",
      .doc =
          "SmoothL1Loss with sigma 1 for online hard example mining (R-FCN): bottoms [N,C,..] predictions, targets "
          "and optionally inside weights; divided as loss_param says (default VALID: N times the positions). An "
          "optional second top is each position's loss, summed over the channels, [N,1,..], without gradient.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildOhem,
      .page = {
          .params = {"loss_param"},
          .formula = "`d = inside * (a - b)`; `e = d^2 / 2` where `|d| < 1`, else `|d| - 1/2`; `y = sum of e / Z`, a "
                     "scalar. a is [N,C,..]; b and inside (bottom 2, 1 where absent) have its first dimension and "
                     "number of elements.\n\nZ follows loss_param.normalization, or the older normalize (true: VALID, "
                     "false: BATCH_SIZE): VALID (the default) and FULL are N times the positions after the channels, "
                     "BATCH_SIZE is N, NONE 1, PRE_FIXED pre_fixed_normalizer. Top 1, if there is one, is [N,1,..]: e "
                     "summed over the channels. The loss weight is 1 unless given.",
          .gradient = "`da = dy * inside * d / Z` where `|d| < 1`, else `dy * inside * sign(d) / Z`; `db = -da`. The "
                      "weights get none, and none comes through top 1.",
          .source = "R-FCN (Dai, Li, He, Sun, arXiv 1605.06409) and online hard example mining (arXiv 1604.03540); "
                    "R-FCN's Caffe, smooth_L1_loss_ohem_layer. PRE_FIXED is Intel's.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 8 dim: 1 dim: 1 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 8 dim: 1 dim: 1 } } }
layer { name: "inside" type: "Input" top: "inside" input_param { shape { dim: 2 dim: 8 dim: 1 dim: 1 } } }
layer {
  name: "loss"
  type: "SmoothL1LossOHEM"
  bottom: "a"
  bottom: "b"
  bottom: "inside"
  top: "loss"
  top: "each"
})"}};
}

}  // namespace moka
