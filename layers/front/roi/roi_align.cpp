// ROIAlign (He et al., "Mask R-CNN", 2017): regions pooled without rounding.
#include "layers/front/roi/layers.h"
#include "layers/front/roi/roi_fields.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  CheckRegionBottoms(l);
  const ROIAlignParameter& p = l.param().roi_align_param();
  Attributes bins = BinsOf(l, "roi_align_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  const double pad_ratio = Finite(l, "roi_align_param.pad_ratio", p.pad_ratio());
  l.Check(pad_ratio >= 0, "roi_align_param.pad_ratio",
          StrCat("roi_align_param.pad_ratio must be at least 0, found ", pad_ratio));
  l.Check(p.sampling_ratio() <= 1024, "roi_align_param.sampling_ratio",
          StrCat("roi_align_param.sampling_ratio must be at most 1024, found ", p.sampling_ratio()));
  bins.Set("sampling_ratio", int64_t{std::max(p.sampling_ratio(), 0)});
  bins.Set("aligned", p.aligned());
  bins.Set("pad_ratio", pad_ratio);
  l.SetTop(0, l.b().Add1("roi_align", l.bottoms(), bins));
}

}  // namespace

LayerDef RoiAlignLayer() {
  return {
      .type = "ROIAlign",
      .doc =
          "The mean of bilinear samples in each of pooled_h x pooled_w bins of the regions in bottom 1 [R,5]; nothing "
          "is rounded. sampling_ratio samples a bin along each axis (0: as many as it has pixels). aligned: true "
          "shifts "
          "coordinates by half a pixel, as later code does; false (default, as first published) does not, and a region "
          "has at least one pixel a side. pad_ratio enlarges a region by that part of its side at each end.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = Build};
}

}  // namespace moka
