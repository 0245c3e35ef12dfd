// y = x if x > 0, else negative_slope * x; and where x > 0 (DecoupledNet).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRelu(LayerBuilder& l) {
  if (l.top_count() > 1) l.SetTop(1, l.b().Pointwise("gt(x0,0)", {l.bottom(0)}));
  const double slope = Finite(l, "relu_param.negative_slope", l.param().relu_param().negative_slope());
  if (l.param().relu_param().relu6()) {
    l.Check(slope == 0, "relu_param.negative_slope", "relu6 has no negative slope");
    return l.SetTop(0, l.b().Pointwise("min(max(x0,0),6)", {l.bottom(0)}));
  }
  const std::string text = slope == 0 ? "max(x0,0)" : StrCat("select(gt(x0,0),x0,", Number(slope), "*x0)");
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0)}));
}

}  // namespace

LayerDef ReLULayer() {
  return {
      .type = "ReLU",
      .doc =
          "x if x > 0, else negative_slope * x (default 0); relu6 bounds it by 6 above. A second top is 1 where x > 0, "
          "else 0. Tops have the bottom's shape.",
      .max_tops = 2,
      .build = BuildRelu,
      .page = {
          .params = {"relu_param"},
          .formula = "`y = max(x, 0)`, or with a `negative_slope` s (default 0) `y = x` where `x > 0`, else `s * x`; "
                     "with `relu6` (and no slope) `y = min(max(x, 0), 6)`. y has the shape of x. A second top "
                     "is `x > 0`.",
          .gradient = "x: `dx = dy` where `x > 0`, else `s * dy`; with relu6 `dy` where `0 < x < 6`, else 0. The "
                      "second top gives "
                      "none.",
          .source = "Nair, Hinton, \"Rectified Linear Units Improve Restricted Boltzmann Machines\", 2010; BVLC "
                    "Caffe's relu_layer. `relu6` is a fork's field; the second top is DecoupledNet's "
                    "(Hong, Noh, Han, arXiv 1506.04924).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "relu"
  type: "ReLU"
  bottom: "x"
  top: "relu"
  relu_param { negative_slope: 0.1 }
})"}};
}

}  // namespace moka
