// An image warped by a flow (FlowNet 2's FlowWarp).
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildFlowWarp(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x.Count() >= 1, "bottom[0]", StrCat("the image must be [N,C,H,W], found ", x.ToString()));
  l.Check(l.shape(1) == x.With(1, 2), "bottom[1]",
          StrCat("the flow must be ", x.With(1, 2).ToString(), ", two numbers a pixel of ", x.ToString(), ", found ",
                 l.shape(1).ToString()));
  const bool is_nan = l.param().flow_warp_param().fill_value() == FlowWarpParameter::NOT_A_NUMBER;
  l.SetTop(0, l.b().Add1("flow_warp", {l.bottom(0), l.bottom(1)}, {{"fill_nan", is_nan}}));
}

}  // namespace

LayerDef FlowWarpLayer() {
  return {
      .type = "FlowWarp", .min_bottoms = 2, .max_bottoms = 2, .build = BuildFlowWarp, .params = {"flow_warp_param"}};
}

}  // namespace moka
