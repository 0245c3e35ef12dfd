// min(ReLU(x), 6) (MobileNet's activation); no gradient from 6 on.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRelu6(LayerBuilder& l) {
  const double slope = Finite(l, "relu6_param.negative_slope", l.param().relu6_param().negative_slope());
  const std::string relu = slope == 0 ? "max(x0,0)" : StrCat("select(gt(x0,0),x0,", Number(slope), "*x0)");
  l.SetTop(0, l.b().Pointwise(StrCat("select(lt(x0,6),", relu, ",6)"), {l.bottom(0)}));
}

}  // namespace

LayerDef Relu6Layer() {
  return {
      .type = "ReLU6",
      .doc = "x between 0 and 6, 6 above, and relu6_param.negative_slope * x (default 0) below 0.",
      .build = BuildRelu6,
      .page = {
          .params = {"relu6_param"},
          .formula = "`y = 6` where `x >= 6`, `x` where `0 < x < 6`, else `negative_slope * x` (default slope 0). y "
                     "has the shape of x.",
          .gradient = "x: `dx = 0` where `x >= 6`, `dy` where `0 < x < 6`, else `negative_slope * dy`.",
          .source =
              "Howard et al., \"MobileNets\", 2017, arXiv 1704.04861, and the relu6_layer of Caffe's MobileNet forks.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "relu6"
  type: "ReLU6"
  bottom: "x"
  top: "relu6"
})"}};
}

}  // namespace moka
