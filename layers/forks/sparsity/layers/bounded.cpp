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
  const std::string a = Number(low);
  const std::string b = Number(high);
  // At the bounds the gradient passes, as in the original.
  l.SetTop(0,
           l.b().Pointwise(StrCat("select(lt(x0,", a, "),", a, ",select(gt(x0,", b, "),", b, ",x0))"), {l.bottom(0)}));
}

void BuildMinReLU(LayerBuilder& l) {
  const double slope = Finite(l, "minrelu_param.positive_slope", l.param().minrelu_param().positive_slope());
  l.SetTop(0, l.b().Pointwise(StrCat("select(lt(x0,0),x0,", Number(slope), "*x0)"), {l.bottom(0)}));
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

LayerDef BReLULayer() {
  return {
      .type = "BReLU",
      .doc =
          "min(max(x, minval), maxval): a ReLU with two bounds, for values such as a haze's transmission; both fields "
          "of brelu_param must be given. The top has the bottom's shape.",
      .build = BuildBReLU,
      .page = {.params = {"brelu_param"},
               .formula = "`y = min(max(x, minval), maxval)`.",
               .gradient = "`dx = dy` where `minval <= x <= maxval`, else 0.",
               .source = "DehazeNet (Cai et al., arXiv 1601.07661); the brelu_layer of a Caffe for dehazing nets.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "bounded" type: "BReLU" bottom: "x" top: "bounded" brelu_param { minval: 0 maxval: 1 } })"}};
}

LayerDef MinReLULayer() {
  return {.type = "MinReLU",
          .doc =
              "min(x, 0), or with minrelu_param.positive_slope (default 0) that much of x where it is positive. The "
              "top has the bottom's shape.",
          .build = BuildMinReLU,
          .page = {.params = {"minrelu_param"},
                   .formula = "`y = x` where `x < 0`, else `positive_slope * x`.",
                   .gradient = "`dx = dy` where `x < 0`, else `positive_slope * dy`.",
                   .source = "ALISCIFP's Caffe, minrelu_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "y" type: "MinReLU" bottom: "x" top: "y" minrelu_param { positive_slope: 0.1 } })"}};
}

LayerDef OutputDecayLayer() {
  return {.type = "OutputDecay",
          .doc =
              "The bottom itself, whose gradient gets a term that draws its values to zero: "
              "output_decay_param.output_decay "
              "times x (regularization_type L2) or times its sign (L1). Both fields must be given.",
          .build = BuildOutputDecay,
          .page = {.params = {"output_decay_param"},
                   .formula = "`y = x`.",
                   .gradient =
                       "`dx = dy + output_decay * x` (L2) or `dy + output_decay * sign(x)` (L1), whatever the loss; "
                       "it is not the derivative of the identity. Only where a gradient reaches the layer.",
                   .source = "The output_decay_layer of a public Caffe; there it works in place.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "decay"
  type: "OutputDecay"
  bottom: "x"
  top: "y"
  output_decay_param { regularization_type: "L1" output_decay: 1e-4 }
})"}};
}

}  // namespace moka
