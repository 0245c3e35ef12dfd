// ImResize: heat maps of an image at several scales brought to one size and averaged.
#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildImResize(LayerBuilder& l) {
  const ImResizeParameter& p = l.param().imresize_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  const double factor = Finite(l, "imresize_param.factor", p.factor());
  l.Check(factor >= 0, "imresize_param.factor", StrCat("factor must not be negative, found ", factor));
  constexpr double kMost = 1 << 15;
  const auto side = [&](int64_t target, int64_t pixels) {
    const double size = factor > 0 ? static_cast<double>(pixels) * factor : static_cast<double>(target);
    l.Check(size >= 1 && size <= kMost, "imresize_param",
            StrCat("the maps' sides must become 1 to ", kMost, " pixels, found ", size));
    return static_cast<int64_t>(size);
  };
  l.SetTop(0, l.b().Add1("cubic_mean", {l.bottom(0)},
                         {{"height", side(p.target_spatial_height(), x[2])},
                          {"width", side(p.target_spatial_width(), x[3])},
                          {"start_scale", Finite(l, "imresize_param.start_scale", p.start_scale())},
                          {"scale_gap", Finite(l, "imresize_param.scale_gap", p.scale_gap())}}));
}

}  // namespace

LayerDef ImResizeLayer() { return {.type = "ImResize", .build = BuildImResize, .params = {"imresize_param"}}; }

}  // namespace moka
