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

LayerDef MaskResizeLayer() { return {.type = "MaskResize", .build = BuildMaskResize, .params = {"mask_resize_param"}}; }

}  // namespace moka
