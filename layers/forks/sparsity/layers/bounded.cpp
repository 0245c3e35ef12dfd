// Activations of single papers, and a penalty on a layer's values that has the form of one.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildBReLU(LayerBuilder& l) {
  const BReLUParameter& p = l.param().brelu_param();
  l.Check(p.has_minval() && p.has_maxval(), "brelu_param", "brelu_param must give minval and maxval");
  const double low = Finite(l, "brelu_param.minval", p.minval());
  const double high = Finite(l, "brelu_param.maxval", p.maxval());
  l.Check(low <= high, "brelu_param.minval", StrCat("minval ", low, " is above maxval ", high));
  const Term x = l.Bottom(0);
  const Term least = Decimal(low);
  const Term most = Decimal(high);
  // At the bounds the gradient passes, as in the original.
  l.SetTop(0, Select(x < least, least, Select(x > most, most, x)));
}

void BuildMinReLU(LayerBuilder& l) {
  const double slope = Finite(l, "minrelu_param.positive_slope", l.param().minrelu_param().positive_slope());
  const Term x = l.Bottom(0);
  l.SetTop(0, Select(x < 0, x, Decimal(slope) * x));
}

void BuildOutputDecay(LayerBuilder& l) {
  const OutputDecayParameter& p = l.param().output_decay_param();
  l.Check(p.has_output_decay(), "output_decay_param.output_decay", "output_decay must be given");
  const double decay = Finite(l, "output_decay_param.output_decay", p.output_decay());
  const bool is_l1 = p.regularization_type() == "L1";
  l.Check(is_l1 || p.regularization_type() == "L2", "output_decay_param.regularization_type",
          StrCat("regularization_type must be \"L1\" or \"L2\", found \"", p.regularization_type(), "\""));
  if (l.phase() == TEST || decay == 0) return l.SetTop(0, l.bottom(0));
  l.SetTop(0, l.b().Add1("output_decay", {l.bottom(0)}, {{"decay", decay}, {"l1", is_l1}}));
}

}  // namespace

LayerDef BReLULayer() { return {.type = "BReLU", .build = BuildBReLU, .params = {"brelu_param"}}; }

LayerDef MinReLULayer() { return {.type = "MinReLU", .build = BuildMinReLU, .params = {"minrelu_param"}}; }

LayerDef OutputDecayLayer() {
  return {.type = "OutputDecay", .build = BuildOutputDecay, .params = {"output_decay_param"}};
}

}  // namespace moka
