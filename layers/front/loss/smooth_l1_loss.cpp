// Smooth L1 (Girshick, arXiv 1504.08083): with d = in * (a - b), e = (sigma d)^2 / 2 where |d| < 1/sigma^2, else |d| -
// 1/(2 sigma^2); out * e is summed. One formula serves SSD (no sigma, weights as a third bottom) and Fast R-CNN (sigma,
// inside and outside weights), both divided by the batch; R-FCN's OHEM layer divides as loss_param says and tells each
// instance's loss.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"
#include "layers/front/loss_normalizer.h"

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

void Build(LayerBuilder& l) {
  if (l.top_count() > 1) return BuildOhem(l);  // R-FCN's first branch gave the plain type a second top
  const double sigma = Finite(l, "smooth_l1_loss_param.sigma", l.param().smooth_l1_loss_param().sigma());
  l.Check(sigma > 0, "smooth_l1_loss_param.sigma", StrCat("smooth_l1_loss_param.sigma must be above 0, found ", sigma));
  const Errors errors = ErrorsOf(l, sigma);
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", l.shape(0)[0]), {SumOf(l, errors.expr, errors.inputs)}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef SmoothL1LossLayer() {
  return {.type = "SmoothL1Loss",
          .doc =
              "Bottoms: predictions, targets, and optionally weights inside and outside the norm, all of one batch and "
              "count. With d = inside * (prediction - target): sum of outside * (0.5 (sigma d)^2 if |d| < 1/sigma^2, "
              "else |d| - 0.5/sigma^2), divided by the batch (the first dimension). smooth_l1_loss_param.sigma is 1 "
              "unless given (SSD has none). With a second top it is SmoothL1LossOHEM.",
          .min_bottoms = 2,
          .max_bottoms = 4,
          .max_tops = 2,
          .auto_tops = true,
          .build = Build};
}

LayerDef SmoothL1LossOhemLayer() {
  return {.type = "SmoothL1LossOHEM",
          .doc =
              "SmoothL1Loss with sigma 1 for online hard example mining (R-FCN): bottoms [N,C,..] predictions, targets "
              "and optionally inside weights; divided as loss_param says (default VALID: N times the positions). An "
              "optional second top is each position's loss, summed over the channels, [N,1,..], without gradient.",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildOhem};
}

}  // namespace moka
