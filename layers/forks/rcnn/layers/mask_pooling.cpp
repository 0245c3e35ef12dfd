// MNC's MaskPooling: features times a mask.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskPooling(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const Shape mask = l.shape(1);
  l.Check(x.rank() == 4 && mask == x.With(1, 1), "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 mask.ToString(), " must be features [N,C,H,W] and masks [N,1,H,W]"));
  l.SetTop(0, l.b().Pointwise("x0*x1", l.bottoms()));
}

}  // namespace

LayerDef MaskPoolingLayer() {
  return {
      .type = "MaskPooling",
      .doc = "Features [N,C,H,W] times masks [N,1,H,W], the same for every channel (MNC); both get a gradient.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildMaskPooling,
      .page = {
          .params = {},
          .formula = "`y[n,c,h,w] = x[n,c,h,w] * mask[n,0,h,w]`, of the shape `[N,C,H,W]` of x; mask is `[N,1,H,W]`.",
          .gradient = "x: `dx = dy * mask`. mask: `dmask[n,0,h,w] = sum over c of dy * x`.",
          .source = "Dai, He, Sun, \"Instance-aware Semantic Segmentation via Multi-task Network Cascades\" (MNC), "
                    "2015, arXiv 1512.04412; the mask_pooling_layer of MNC's Caffe.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "mask" type: "Input" top: "mask" input_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } } }
layer {
  name: "masked"
  type: "MaskPooling"
  bottom: "x"
  bottom: "mask"
  top: "masked"
})"}};
}

}  // namespace moka
