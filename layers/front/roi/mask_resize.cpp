// MNC's MaskResize: predicted masks brought to the size of the regions' features.
#include "core/text.h"
#include "layers/front/roi/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const MaskResizeParameter& p = l.param().mask_resize_param();
  constexpr int64_t kMost = 1 << 15;
  const int64_t height = p.output_height();
  const int64_t width = p.output_width();
  l.Check(height >= 1 && width >= 1 && height <= kMost && width <= kMost, "mask_resize_param",
          StrCat("mask_resize_param.output_height and output_width must be from 1 to ", kMost, ", found ", height,
                 " and ", width));
  l.Check(l.shape(0).rank() == 4, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,C,H,W], found ", l.shape(0).ToString()));
  l.SetTop(0, l.b().Add1("mask_resize", {l.bottom(0)}, {{"height", height}, {"width", width}}));
}

}  // namespace

LayerDef MaskResizeLayer() {
  return {
      .type = "MaskResize",
      .doc =
          "Bilinear resizing to output_height x output_width (MNC): row i is sampled at i * H / output_height, without "
          "a half pixel.",
      .build = Build};
}

}  // namespace moka
