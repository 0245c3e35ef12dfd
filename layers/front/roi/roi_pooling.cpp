// Max pooling of regions (Girshick, "Fast R-CNN", 2015; caffe-fast-rcnn's roi_pooling_layer).
#include "layers/front/roi/layers.h"
#include "layers/front/roi/roi_fields.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  CheckRegionBottoms(l);
  const ROIPoolingParameter& p = l.param().roi_pooling_param();
  int64_t height = p.pooled_h();
  int64_t width = p.pooled_w();
  if (p.pooled_size_size() > 0) {
    const bool is_pair = p.pooled_size_size() <= 2 && !p.has_pooled_h() && !p.has_pooled_w();
    l.Check(is_pair, "roi_pooling_param.pooled_size",
            "roi_pooling_param.pooled_size is one side or height and width, without pooled_h and pooled_w");
    height = p.pooled_size(0);
    width = p.pooled_size(p.pooled_size_size() - 1);
  }
  const Attributes bins = BinsOf(l, "roi_pooling_param", height, width, p.spatial_scale());
  l.SetTop(0, l.b().Add("roi_pool", l.bottoms(), bins)[0]);
}

}  // namespace

LayerDef RoiPoolingLayer() {
  return {
      .type = "ROIPooling",
      .doc =
          "The maximum over each of pooled_h x pooled_w bins (or pooled_size, Intel) of the regions in bottom 1 [R,5] "
          "(image, x1, y1, x2, y2 in image pixels) of bottom 0 [N,C,H,W]; the top is [R,C,pooled_h,pooled_w]. "
          "Coordinates times spatial_scale are rounded, the last pixel belongs to the region, bins run from the floor "
          "of their start to the ceiling of their end, and an empty bin is 0.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = Build};
}

}  // namespace moka
