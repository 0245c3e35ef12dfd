// ROIWarping (Dai et al., "Instance-aware semantic segmentation via multi-task network cascades", 2016): regions
// resized by bilinear samples, with a gradient for the regions themselves.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"

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
  return {
      .type = "ROIWarping",
      .doc =
          "A bilinear sample of bottom 0 [N,C,H,W] at the corner of each of pooled_h x pooled_w bins of the regions in "
          "bottom 1 [R,5] (image, x1, y1, x2, y2), whose ends times spatial_scale are rounded; the top is "
          "[R,C,pooled_h,pooled_w]. Samples more than half a pixel outside are 0. Both bottoms get a gradient (MNC).",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildRoiWarping,
      .page = {
          .params = {"roi_warping_param"},
          .formula = "Along an axis, for a region from a to b of n bins: `start = round(a * spatial_scale)`, `extent = "
                     "max(round(b * spatial_scale) - start, 0)`; bin j samples at `start + j extent / n`. `y[r,c,i,j]` "
                     "is the bilinear sample of channel c of the region's image there; one more than half a pixel "
                     "outside the map is 0, one less far outside takes the edge. y is `[R,C,pooled_h,pooled_w]`.",
          .gradient =
              "x: each dy is added to the four pixels it was sampled from, times their weights. Regions: with r = "
              "(position - start) / max(round(b * spatial_scale) - start + 1, 1) and f the sampled map, `da = sum(dy "
              "spatial_scale (1 - r) df)`, `db = sum(dy spatial_scale r df)`, df the slope of f along the axis; "
              "samples in the last row or column or outside the map give none, the image's index gets none.",
          .source = "Dai, He, Sun, \"Instance-aware Semantic Segmentation via Multi-task Network Cascades\" (MNC), "
                    "2015, arXiv 1512.04412; the roi_warping_layer of MNC's Caffe.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "warp"
  type: "ROIWarping"
  bottom: "x"
  bottom: "rois"
  top: "warp"
  roi_warping_param { pooled_h: 3 pooled_w: 3 spatial_scale: 0.5 }
})"}};
}

LayerDef RoiWarpingTestLayer() {
  LayerDef def = RoiWarpingLayer();
  def.type = "ROIWarpingTest";
  def.doc = "ROIWarping with its fields in roi_warping_test_param.";
  def.build = BuildTest;
  def.page.params = {"roi_warping_test_param"};
  def.page.example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "warp"
  type: "ROIWarpingTest"
  bottom: "x"
  bottom: "rois"
  top: "warp"
  roi_warping_test_param { pooled_h: 3 pooled_w: 3 spatial_scale: 0.5 }
})";
  return def;
}

}  // namespace moka
