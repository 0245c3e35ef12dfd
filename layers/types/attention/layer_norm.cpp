// Layer normalisation (Ba, Kiros and Hinton, arXiv 1607.06450): mean 0 and variance 1 over the last axes, then a scale
// and a shift of each of their elements.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildLayerNorm(LayerBuilder& l) {
  const LayerNormParameter& p = l.param().layer_norm_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "layer_norm_param.axis", p.axis(), x);
  const double eps = Finite(l, "layer_norm_param.eps", p.eps());
  l.Check(eps > 0, "layer_norm_param.eps", StrCat("layer_norm_param.eps must be above 0, found ", eps));
  Ints axes;
  std::vector<int64_t> dims;
  for (int i = axis; i < x.rank(); ++i) {
    axes.push_back(i);
    dims.push_back(x[i]);
  }
  const auto sum = [&](const std::string& expression, const std::vector<ValueId>& inputs) {
    return b.Add1("reduce_sum", inputs, {{"expr", expression}, {"axes", axes}});
  };
  const std::string part = StrCat("/", x.Count(axis, x.rank()));
  const ValueId mean = b.Pointwise(StrCat("x0", part), {sum("x0", {l.bottom(0)})});
  const ValueId squares = sum("(x0-x1)*(x0-x1)", {l.bottom(0), mean});
  const ValueId inverse = b.Pointwise(StrCat("1/sqrt(x0", part, "+", Number(eps), ")"), {squares});
  std::vector<ValueId> inputs{l.bottom(0), mean, inverse};
  std::string y = "(x0-x1)*x2";
  if (p.affine()) {
    FillerParameter one;
    one.set_value(1);
    for (int i = 0; i < 2; ++i) {
      const ValueId blob = l.AddBlob(i, Shape(dims), i == 0 ? one : FillerParameter(), ParameterRole::kNorm);
      inputs.push_back(b.Reshape(blob, Spread(Shape(dims), axis, x.rank())));
    }
    y += "*x3+x4";
  }
  l.SetTop(0, b.Pointwise(y, inputs));
}

}  // namespace

LayerDef LayerNormLayer() {
  return {
      .type = "LayerNorm",
      .doc =
          "The axes from layer_norm_param.axis on (default: the last) brought to mean 0 and variance 1, then scaled "
          "(blob 0, ones at first) and shifted (blob 1, zeros) element by element unless affine is false.",
      .build = BuildLayerNorm,
      .page = {.params = {"layer_norm_param"},
               .formula =
                   "`y = g * (x - mean) / sqrt(variance + eps) + b`, mean and variance (biased) over the axes from "
                   "`axis` on; g and b have these axes' shape, and are 1 and 0 with `affine: false`.",
               .gradient =
                   "Of the formula, through mean and variance; `dg = sum dy * (x - mean) / sqrt(variance + eps)` and "
                   "`db = sum dy` over the axes before `axis`.",
               .source = "Ba, Kiros and Hinton, \"Layer normalization\", arXiv 1607.06450; PyTorch's LayerNorm.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 5 dim: 2 dim: 8 } } }
layer { name: "norm" type: "LayerNorm" bottom: "x" top: "norm" layer_norm_param { eps: 1e-6 } })"}};
}

}  // namespace moka
