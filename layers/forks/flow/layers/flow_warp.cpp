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
      .type = "FlowWarp",
      .doc =
          "The image [N,C,H,W] read where the flow [N,2,H,W] points from each pixel (channel 0 across, 1 down, in "
          "pixels), bilinear; outside the image flow_warp_param.fill_value, ZERO or NOT_A_NUMBER.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildFlowWarp,
      .page = {
          .params = {"flow_warp_param"},
          .formula = "With `v = i + flow[n,1,i,j]`, `u = j + flow[n,0,i,j]`: `y[n,c,i,j]` is x[n,c] at (v,u), bilinear "
                     "between the pixels at floor(v), floor(v)+1 and floor(u), floor(u)+1 (held at the last row and "
                     "column), if `0 <= v < H` and `0 <= u < W`, else the fill value.",
          .gradient = "Image: each dy goes to the four pixels with their weights. Flow: dy times the slope "
                      "between those pixels. Nothing where the fill value stands.",
          .source = "Ilg et al., \"FlowNet 2.0\", 2016, arXiv 1612.01925; its Caffe, flow_warp_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 5 } } }
layer { name: "flow" type: "Input" top: "flow" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 5 } } }
layer { name: "warped" type: "FlowWarp" bottom: "x" bottom: "flow" top: "warped" })"}};
}

}  // namespace moka
