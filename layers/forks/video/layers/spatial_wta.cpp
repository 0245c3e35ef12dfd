// Winner takes all in the plane (caffe_convLSTM_WTA).
#include "core/text.h"
#include "graph/attributes.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Height and width of a window or a stride.
Ints Pair(const LayerBuilder& l, const std::string& name, bool has_both, int64_t both, bool has_hw, int64_t h,
          int64_t w) {
  l.Check(!(has_both && has_hw), "spatial_wta_param." + name,
          StrCat("spatial_wta_param.", name, " is given in two spellings; give one of them"));
  const Ints pair = has_hw ? Ints{h, w} : Ints{both, both};
  l.Check(pair[0] >= 1 && pair[1] >= 1, "spatial_wta_param." + name,
          StrCat("spatial_wta_param.", name, " must be given and at least 1"));
  return pair;
}

void BuildSpatialWta(LayerBuilder& l) {
  const SpatialWtaParameter& p = l.param().spatial_wta_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x.Count() >= 1, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.pad() == 0 && p.pad_h() == 0 && p.pad_w() == 0, "spatial_wta_param.pad", "windows take no pad");
  Ints kernel{x[2], x[3]};
  const bool has_kernel = p.has_kernel_size() || p.has_kernel_h() || p.has_kernel_w();
  const Ints stride =
      Pair(l, "stride", p.has_stride(), p.stride(), p.has_stride_h() || p.has_stride_w(), p.stride_h(), p.stride_w());
  if (p.global_wta()) {
    l.Check(!has_kernel && stride == Ints{1, 1}, "spatial_wta_param.global_wta",
            "global_wta takes the whole image; kernel_size and stride must not be given");
  } else {
    kernel = Pair(l, "kernel_size", p.has_kernel_size(), p.kernel_size(), p.has_kernel_h() || p.has_kernel_w(),
                  p.kernel_h(), p.kernel_w());
    l.Check(kernel[0] <= x[2] && kernel[1] <= x[3], "spatial_wta_param.kernel_size",
            StrCat("the window must lie inside the bottom ", x.ToString()));
  }
  const ValueId fixed = l.b().Add1("stop_gradient", {l.bottom(0)});
  const ValueId mask = l.b().Add1("winner_mask", {fixed}, {{"kernel", kernel}, {"stride", stride}});
  l.SetTop(0, l.b().Pointwise("select(eq(x1,0),0,x0)", {l.bottom(0), mask}));
}

}  // namespace

LayerDef SpatialWtaLayer() { return {.type = "SpatialWta", .build = BuildSpatialWta, .params = {"spatial_wta_param"}}; }

}  // namespace moka
