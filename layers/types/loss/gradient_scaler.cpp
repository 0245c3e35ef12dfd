// GradientScaler: gradient reversal for domain adaptation. Forward it is the identity; backward the gradient is
// multiplied by -c, with c rising as training goes on. The layer counts its own training passes, for Caffe's layer is
// told the solver's iteration: they differ by a factor of iter_size.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// c of the pass, from how many passes were before it.
ValueId Coefficient(LayerBuilder& l, const GradientScalerParameter& p) {
  const std::string prefix = "gradient_scaler_param.";
  const double low = Finite(l, prefix + "lower_bound", p.lower_bound());
  const double high = Finite(l, prefix + "upper_bound", p.upper_bound());
  const double alpha = Finite(l, prefix + "alpha", p.alpha());
  const auto threshold = static_cast<double>(p.threshold_iter());
  // As the original: the length is counted from the threshold and has the threshold added once more.
  const double length = threshold + Finite(l, prefix + "max_iter", p.max_iter());
  l.Check(low <= high, prefix + "lower_bound", StrCat("lower_bound ", low, " is above upper_bound ", high));
  l.Check(p.max_iter() >= 1, prefix + "max_iter", StrCat("max_iter must be at least 1, found ", p.max_iter()));
  const FillerParameter zero;
  const ValueId passes = l.AddBlob(0, {}, zero, ParameterRole::kStatistic);
  if (l.phase() == TRAIN) l.Assign(0, l.b().Pointwise("x0+1", {passes}));
  const Term pass = Term::Of(Constant(l, passes));
  const Term height = Decimal(high - low);
  const Term progress = Min((pass - Decimal(threshold)) / Decimal(length), 1);
  const Term c = 2 * height / (1 + Exp(-Decimal(alpha) * progress)) - height + Decimal(low);
  return Computed(l.b(), Select(pass > Decimal(threshold), c, 0));
}

void BuildGradientScaler(LayerBuilder& l) {
  const ValueId c = Coefficient(l, l.param().gradient_scaler_param());
  const ValueId x = l.bottom(0);
  const ValueId fixed = l.b().Add1("stop_gradient", {x});
  // The difference is exactly 0; its slope is -c.
  const int rank = l.shape(0).rank();
  const ValueId spread = rank == 0 ? c : l.b().Reshape(c, Spread({1}, 0, rank));
  l.SetTop(0, l.b().Pointwise("x0-x2*(x1-x0)", {fixed, x, spread}));
}

}  // namespace

LayerDef GradientScalerLayer() {
  return {.type = "GradientScaler", .build = BuildGradientScaler, .params = {"gradient_scaler_param"}};
}

}  // namespace moka
