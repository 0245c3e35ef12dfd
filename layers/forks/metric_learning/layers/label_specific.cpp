// Margins at the label (AMSoftmax, Wang et al., arXiv 1801.05599; NormFace): the score of the label is moved or scaled
// before the loss.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// bias_base + (1 + gamma * iteration)^power - 1, kept within the bounds; the iteration is counted by the layer.
ValueId AnnealedBias(LayerBuilder& l, const LabelSpecificAddParameter& p) {
  const std::string prefix = "label_specific_add_param.";
  const ValueId runs = l.AddKept("runs", {});
  l.AssignKept(runs, l.b().Pointwise("x0+1", {runs}));
  const double gamma = Finite(l, prefix + "bias_gamma", p.bias_gamma());
  const double power = Finite(l, prefix + "bias_power", p.bias_power());
  const Term base = Decimal(Finite(l, prefix + "bias_base", p.bias_base()));
  const Term least = Decimal(Finite(l, prefix + "bias_min", p.bias_min()));
  const Term most = Decimal(Finite(l, prefix + "bias_max", p.bias_max()));
  const Term iteration = Term::Of(Constant(l, runs)) + p.iteration();
  const Term growth = Pow(Max(1 + Decimal(gamma) * iteration, 0), Decimal(power));
  return Computed(l.b(), Min(Max(base + growth - 1, least), most));
}

void BuildAdd(LayerBuilder& l) {
  const LabelSpecificAddParameter& p = l.param().label_specific_add_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const LabelledRows in = RowsWithLabels(l);
  const bool is_fixed = !p.has_bias_base();
  const double fixed = Finite(l, "label_specific_add_param.bias", p.bias());
  ValueId bias = b.Full({}, fixed);
  if (l.phase() == TRAIN) {
    if (!is_fixed) bias = AnnealedBias(l, p);
    l.SetTop(0, b.Reshape(b.Pointwise("x0+x1*x2*gt(x0,-x2)", {in.rows, in.mask, bias}), x));
  } else {
    l.SetTop(0, l.bottom(0));
  }
  if (l.top_count() > 1) l.SetTop(1, b.Reshape(bias, {1}));
}

void BuildRescale(LayerBuilder& l) {
  const LabelSpecificRescaleParameter& p = l.param().label_specific_rescale_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const LabelledRows in = RowsWithLabels(l);
  const double positive = Finite(l, "label_specific_rescale_param.positive_weight", p.positive_weight());
  const double negative = Finite(l, "label_specific_rescale_param.negative_weight", p.negative_weight());
  if (l.phase() == TEST && !p.rescale_test()) {
    l.SetTop(0, l.bottom(0));
  } else {
    const Term rows = Term::Of(in.rows);
    const Term own = p.for_ip() ? Select(rows > 0, Decimal(positive), 1) : Decimal(positive);
    l.SetTop(0, b.Reshape(Computed(b, rows * Select(Term::Of(in.mask), own, Decimal(negative))), x));
  }
  if (l.top_count() > 1) l.SetTop(1, b.Full({1}, positive));
}

LayerDef Row(std::string type, void (*build)(LayerBuilder&), std::vector<std::string> params) {
  return {.type = std::move(type),
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = build,
          .params = std::move(params)};
}

}  // namespace

LayerDef LabelSpecificAddLayer() { return Row("LabelSpecificAdd", BuildAdd, {"label_specific_add_param"}); }

LayerDef LabelSpecificRescaleLayer() {
  return Row("LabelSpecificRescale", BuildRescale, {"label_specific_rescale_param"});
}

}  // namespace moka
