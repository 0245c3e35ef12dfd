// ROIWarping (Dai et al., "Instance-aware semantic segmentation via multi-task network cascades", 2016): regions
// resized by bilinear samples, with a gradient for the regions themselves.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

template <class Parameter>
void BuildFrom(LayerBuilder& l, const std::string& message, const Parameter& p) {
  CheckRegionBottoms(l);
  l.SetTop(0, l.b().Add1("roi_warp", {l.bottom(0), Regions(l)},
                         BinsOf(l, message, p.pooled_h(), p.pooled_w(), p.spatial_scale())));
}

void BuildRoiWarping(LayerBuilder& l) { BuildFrom(l, "roi_warping_param", l.param().roi_warping_param()); }
void BuildTest(LayerBuilder& l) { BuildFrom(l, "roi_warping_test_param", l.param().roi_warping_test_param()); }

}  // namespace

LayerDef RoiWarpingLayer() {
  return {.type = "ROIWarping",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildRoiWarping,
          .needs = NeedRegions,
          .params = {"roi_warping_param"}};
}

LayerDef RoiWarpingTestLayer() {
  LayerDef def = RoiWarpingLayer();
  def.type = "ROIWarpingTest";
  def.build = BuildTest;
  def.params = {"roi_warping_test_param"};
  return def;
}

}  // namespace moka
