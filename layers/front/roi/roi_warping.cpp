// ROIWarping (Dai et al., "Instance-aware semantic segmentation via multi-task network cascades", 2016): regions
// resized by bilinear samples, with a gradient for the regions themselves.
#include "layers/front/roi/layers.h"
#include "layers/front/roi/roi_fields.h"

namespace moka {
namespace {

template <class Parameter>
void BuildFrom(LayerBuilder& l, const std::string& message, const Parameter& p) {
  CheckRegionBottoms(l);
  l.SetTop(0, l.b().Add1("roi_warp", l.bottoms(), BinsOf(l, message, p.pooled_h(), p.pooled_w(), p.spatial_scale())));
}

void Build(LayerBuilder& l) { BuildFrom(l, "roi_warping_param", l.param().roi_warping_param()); }
void BuildTest(LayerBuilder& l) { BuildFrom(l, "roi_warping_test_param", l.param().roi_warping_test_param()); }

}  // namespace

LayerDef RoiWarpingLayer() {
  return {
      .type = "ROIWarping",
      .doc =
          "A bilinear sample of bottom 0 at the corner of each of pooled_h x pooled_w bins of the regions in bottom 1 "
          "[R,5], whose ends times spatial_scale are rounded; samples more than half a pixel outside are 0. Both "
          "bottoms get a gradient (MNC).",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = Build};
}

LayerDef RoiWarpingTestLayer() {
  return {.type = "ROIWarpingTest",
          .doc = "ROIWarping with its fields in roi_warping_test_param.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildTest};
}

}  // namespace moka
