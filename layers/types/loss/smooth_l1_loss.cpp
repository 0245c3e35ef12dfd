// Smooth L1 (Girshick, arXiv 1504.08083): with d = in * (a - b), e = (sigma d)^2 / 2 where |d| < 1/sigma^2, else |d| -
// 1/(2 sigma^2); out * e is summed. One formula serves SSD (no sigma, weights as a third bottom) and Fast R-CNN (sigma,
// inside and outside weights), both divided by the batch; R-FCN's OHEM layer divides as loss_param says and tells each
// instance's loss.
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// The elementwise error of the inputs: a, b and the weights there are.
struct Errors {
  Term each;
  std::vector<ValueId> inputs;
};

Errors ErrorsOf(const LayerBuilder& l, double sigma) {
  std::vector<ValueId> inputs{l.bottom(0)};
  for (int i = 1; i < l.bottom_count(); ++i) inputs.push_back(i == 1 ? Like0(l, i) : Constant(l, Like0(l, i)));
  const Term difference = Term::Input(0) - Term::Input(1);
  const Term d = l.bottom_count() > 2 ? Term::Input(2) * difference : difference;
  const double square = sigma * sigma;
  const Term error =
      Select(Abs(d) < Decimal(1 / square), Decimal(0.5 * square) * d * d, Abs(d) - Decimal(0.5 / square));
  return {l.bottom_count() > 3 ? Term::Input(3) * error : error, inputs};
}

void BuildOhem(LayerBuilder& l) {
  const Errors errors = ErrorsOf(l, 1);
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  const ValueId each = Summed(b, errors.each, {1}, errors.inputs);
  const LossCounts counts{.batch = x[0], .positions = x.Count() / x[1]};
  l.SetTop(0, Normalized(l, SumOf(l, "x0", {each}), counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, Constant(l, each));
}

// Sets the top where outside weights may be padding, which is below 0: the sum is divided by the rows that are not
// padding.
void SetPaddedTop(LayerBuilder& l, const Errors& errors) {
  const Shape x = l.shape(0);
  const double columns = static_cast<double>(x.Count()) / static_cast<double>(x[0]);
  const Term marked = Select(Term::Input(3) < 0, 0, errors.each);
  const ValueId counted = SumOf(l, "select(lt(x0,0),0,1)", {errors.inputs[3]});
  const ValueId rows = Computed(l.b(), Term::Of(counted) / Decimal(columns));
  l.SetTop(0, OverCount(l, SumOf(l, marked, errors.inputs), rows));
}

// Cascade R-CNN's second top: each row's loss [N,1,..], for hard mining.
void SetRowLosses(LayerBuilder& l, const Errors& errors) {
  l.Check(l.shape(0).rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", l.shape(0).ToString()));
  const ValueId each = Summed(l.b(), errors.each, {1}, errors.inputs);
  l.SetTop(1, Constant(l, each));
}

// Whether the targets or their weights are.
bool IsOfPaddedRows(const LayerBuilder& l) {
  return std::any_of(l.bottoms().begin() + 1, l.bottoms().end(), [&](ValueId x) { return l.IsPadded(x); });
}

void BuildSmoothL1Loss(LayerBuilder& l) {
  const bool is_padded = IsOfPaddedRows(l);
  if (l.top_count() > 1 && !is_padded) return BuildOhem(l);  // R-FCN's first branch gave the plain type a second top
  const double sigma = Finite(l, "smooth_l1_loss_param.sigma", l.param().smooth_l1_loss_param().sigma());
  l.Check(sigma > 0, "smooth_l1_loss_param.sigma", StrCat("smooth_l1_loss_param.sigma must be above 0, found ", sigma));
  const Errors errors = ErrorsOf(l, sigma);
  if (is_padded && l.bottom_count() > 3) {
    SetPaddedTop(l, errors);
  } else {
    l.SetTop(0, Term::Of(SumOf(l, errors.each, errors.inputs)) / l.shape(0)[0]);
  }
  l.SetLoss(0, 1);
  if (l.top_count() > 1) SetRowLosses(l, errors);
}

}  // namespace

LayerDef SmoothL1LossLayer() {
  return {.type = "SmoothL1Loss",
          .min_bottoms = 2,
          .max_bottoms = 4,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildSmoothL1Loss,
          .traits = {.is_loss = true, .is_regression = true},
          .needs = NeedEqualCounts,
          .params = {"smooth_l1_loss_param"}};
}

LayerDef SmoothL1LossOhemLayer() {
  return {.type = "SmoothL1LossOHEM",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildOhem,
          .traits = {.is_loss = true},
          .params = {"loss_param"}};
}

}  // namespace moka
