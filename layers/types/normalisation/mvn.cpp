// Mean-variance normalisation: (x - mean) / (sqrt(variance) + eps) of each item and channel, or of each item.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMvn(LayerBuilder& l) {
  const MVNParameter& p = l.param().mvn_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  const double eps = Finite(l, "mvn_param.eps", p.eps());
  Ints axes;
  for (int i = p.across_channels() ? 1 : 2; i < x.rank(); ++i) axes.push_back(i);
  const auto count = static_cast<double>(x.Count(axes.empty() ? x.rank() : static_cast<int>(axes[0]), x.rank()));
  const auto mean = [&](const std::string& expr, std::vector<ValueId> inputs) {
    const ValueId sum = b.Add1("reduce_sum", std::move(inputs), {{"expr", expr}, {"axes", axes}});
    return b.Pointwise(StrCat("x0/", count), {sum});
  };
  const ValueId middle = mean("x0", {l.bottom(0)});
  if (!p.normalize_variance()) return l.SetTop(0, b.Pointwise("x0-x1", {l.bottom(0), middle}));
  const ValueId variance = mean("(x0-x1)*(x0-x1)", {l.bottom(0), middle});
  // Where nothing varies the root has no slope; like Caffe's the gradient is then that of (x - mean) / eps.
  const std::string deviation = StrCat("select(gt(x2,0),sqrt(x2),0)+", Number(eps));
  l.SetTop(0, b.Pointwise(StrCat("(x0-x1)/(", deviation, ")"), {l.bottom(0), middle, variance}));
}

}  // namespace

LayerDef MvnLayer() {
  return {
      .type = "MVN",
      .doc =
          "x - mean, divided by sqrt(variance) + mvn_param.eps unless normalize_variance is false. Mean and "
          "variance (biased) are of each channel of each item of [N,C,..], or of each item with across_channels. "
          "The top has the bottom's shape.",
      .build = BuildMvn,
      .page = {
          .params = {"mvn_param"},
          .formula =
              "`y = (x - mean) / (sqrt(variance) + eps)`, with `normalize_variance: false` `y = x - mean`; y has the "
              "shape of x `[N,C,..]`.\n\nmean and variance are over the m elements of each `(n,c)` (axes 2 and later), "
              "with `across_channels` over those of each n (axes 1 and later): `mean = sum(x) / m`, `variance = sum((x "
              "- mean)^2) / m` (biased). eps (default 1e-9) is added to the root, not under it.",
          .gradient = "x, with `d = sqrt(variance) + eps`, `z = (x - mean) / sqrt(variance)` and avg the mean over the "
                      "same m elements: `dx = (dy - avg(dy)) / d - z / d^2 * avg(dy (x - mean))`; where the variance "
                      "is 0 `dx = (dy - avg(dy)) / eps`. Without normalize_variance `dx = dy - avg(dy)`.",
          .source = "BVLC Caffe's mvn_layer. The gradient is that of the formula, eps included; the original's leaves "
                    "out what eps does.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "mvn"
  type: "MVN"
  bottom: "x"
  top: "mvn"
  mvn_param { across_channels: false normalize_variance: true eps: 1e-5 }
})"}};
}

}  // namespace moka
