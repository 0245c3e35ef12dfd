// MNC's MaskResize: predicted masks brought to the size of the regions' features.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskResize(LayerBuilder& l) {
  const MaskResizeParameter& p = l.param().mask_resize_param();
  constexpr int64_t kMost = 1 << 15;
  l.Check(l.shape(0).rank() == 4, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,C,H,W], found ", l.shape(0).ToString()));
  const auto side = [&](const char* field, int64_t output, float factor, int64_t pixels) {
    if (factor <= 0) return output;
    return static_cast<int64_t>(static_cast<float>(pixels) * static_cast<float>(Finite(l, field, factor)));
  };
  const int64_t height = side("mask_resize_param.factor_height", p.output_height(), p.factor_height(), l.shape(0)[2]);
  const int64_t width = side("mask_resize_param.factor_width", p.output_width(), p.factor_width(), l.shape(0)[3]);
  l.Check(height >= 1 && width >= 1 && height <= kMost && width <= kMost, "mask_resize_param",
          StrCat("mask_resize_param.output_height and output_width must be from 1 to ", kMost, ", found ", height,
                 " and ", width));
  l.SetTop(0, l.b().Add1("mask_resize", {l.bottom(0)}, {{"height", height}, {"width", width}}));
}

}  // namespace

LayerDef MaskResizeLayer() {
  return {
      .type = "MaskResize",
      .doc =
          "Bilinear resizing of [N,C,H,W] to [N,C,output_height,output_width] (MNC): row i is sampled at i * H / "
          "output_height, without a half pixel. factor_height and factor_width (SSTD) above 0 stand for sizes of so "
          "much of the bottom's, rounded down.",
      .build = BuildMaskResize,
      .page = {
          .params = {"mask_resize_param"},
          .formula =
              "`y[n,c,i,j]` is the bilinear sample of the plane `x[n,c]` `[H,W]` at row `i * H / output_height`, "
              "column `j * W / output_width` (pixel centres at whole numbers, no half pixel); a position beyond the "
              "last row or column takes the last one. y is `[N,C,output_height,output_width]`; with "
              "factor_height above 0 the height is `floor(factor_height * H)`, with factor_width the width so.",
          .gradient = "x: each dy is added to the four pixels it was sampled from, times their weights.",
          .source = "Dai, He, Sun, \"Instance-aware Semantic Segmentation via Multi-task Network Cascades\" (MNC), "
                    "2015, arXiv 1512.04412; the mask_resize_layer of MNC's Caffe, with SSTD's factors (He et al., "
                    "arXiv 1709.00138).",
          .example =
              R"(layer { name: "mask" type: "Input" top: "mask" input_param { shape { dim: 2 dim: 1 dim: 6 dim: 6 } } }
layer {
  name: "resized"
  type: "MaskResize"
  bottom: "mask"
  top: "resized"
  mask_resize_param { output_height: 4 output_width: 4 }
})"}};
}

}  // namespace moka
