// y = x * min(max(x + 3, 0), 6) / 6 (MobileNetV3, Howard et al., arXiv 1905.02244).
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildHardSwish(LayerBuilder& l) { l.SetTop(0, l.b().Pointwise("x0*min(max(x0+3,0),6)/6", {l.bottom(0)})); }

}  // namespace

LayerDef HardSwishLayer() {
  return {.type = "HardSwish",
          .doc = "x * min(max(x + 3, 0), 6) / 6 of each element; the top has the bottom's shape.",
          .build = BuildHardSwish,
          .page = {.formula = "`y = x * min(max(x + 3, 0), 6) / 6`, of x's shape.",
                   .gradient = "`dx = dy * (min(max(x + 3, 0), 6) / 6 + x / 6 where -3 < x < 3)`.",
                   .source = "Searching for MobileNetV3 (Howard et al., arXiv 1905.02244); hard_swish_layer of "
                             "Synopsys's Caffe, which has no backward pass.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "swish" type: "HardSwish" bottom: "x" top: "swish" })"}};
}

}  // namespace moka
