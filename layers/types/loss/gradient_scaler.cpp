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
  const std::string progress = StrCat("min((x0-", Number(threshold), ")/", Number(length), ",1)");
  const std::string height = Number(high - low);
  return l.b().Pointwise(StrCat("select(gt(x0,", Number(threshold), "),2*", height, "/(1+exp(-", Number(alpha), "*",
                                progress, "))-", height, "+", Number(low), ",0)"),
                         {Constant(l, passes)});
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
  return {
      .type = "GradientScaler",
      .doc =
          "Gradient reversal (domain-adversarial training): the top is the bottom, the gradient is multiplied by -c. c "
          "rises from lower_bound towards upper_bound over max_iter training passes, steeper with alpha (with a "
          "negative "
          "alpha it falls, below 0 where it must); it is 0 until threshold_iter. Blob 0 counts the passes.",
      .build = BuildGradientScaler,
      .page = {
          .params = {"gradient_scaler_param"},
          .formula =
              "`y = x`. With t the training passes before this one (blob 0), u = upper_bound - lower_bound (1 and 0 "
              "by default) and `q = min(1, (t - threshold_iter) / (threshold_iter + max_iter))`: `c = 2 u / (1 + "
              "exp(-alpha q)) - u + lower_bound` when t > threshold_iter (default 0), else 0; alpha defaults to "
              "10, max_iter to 1.",
          .gradient = "`dx = -c dy`, which is not the derivative of the identity.",
          .source =
              "Ganin, Lempitsky, \"Unsupervised Domain Adaptation by Backpropagation\", 2015, arXiv 1409.7495, the "
              "gradient_scaler_layer of its Caffe; threshold_iter is JADF's. There the solver tells the iteration; "
              "here passes are counted, iter_size of them in an iteration. A negative alpha is refused by its debug "
              "builds only; published nets (MHTN) have one.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "reversal"
  type: "GradientScaler"
  bottom: "x"
  top: "reversal"
  gradient_scaler_param { alpha: 10 max_iter: 1000 }
})"}};
}

}  // namespace moka
