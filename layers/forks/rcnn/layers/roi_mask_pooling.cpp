// ROIMaskPooling (CRAFT, Yang et al. 2016; ccnn): ROIPooling of regions that are scaled about their middle or halved.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRoiMaskPooling(LayerBuilder& l) {
  CheckRegionBottoms(l);
  const ROIMaskPoolingParameter& p = l.param().roi_mask_pooling_param();
  const Attributes bins = BinsOf(l, "roi_mask_pooling_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  const double scale = Finite(l, "roi_mask_pooling_param.roi_scale", p.roi_scale());
  const double hole = Finite(l, "roi_mask_pooling_param.mask_scale", p.mask_scale());
  l.Check(hole <= 0, "roi_mask_pooling_param.mask_scale",
          StrCat("roi_mask_pooling_param.mask_scale is not built, found ", hole, "; leave it out"));
  const GraphBuilder& b = l.b();
  const std::vector<ValueId> columns = RegionColumns(l);
  // half_part: 1 and 2 cut the region's columns at its middle, 3 and 4 its rows; others leave it whole.
  const auto ends = [&](size_t axis, int first, int last) {
    const std::string parts = StrCat("t0=0.5*(x0+x1);t1=0.5*", Number(scale), "*(x1-x0);");
    const bool is_first = p.half_part() == first;
    const bool is_last = p.half_part() == last;
    return b.Pointwise(Strings{parts + (is_last ? "t0" : "t0-t1"), parts + (is_first ? "t0" : "t0+t1")},
                       {columns[axis], columns[axis + 2]});
  };
  const std::vector<ValueId> x = ends(1, 1, 2);
  const std::vector<ValueId> y = ends(2, 3, 4);
  const ValueId rois = b.Add1("concat", {columns[0], x[0], y[0], x[1], y[1]}, {{"axis", int64_t{1}}});
  l.SetTop(0, b.Add("roi_pool", {l.bottom(0), rois}, bins)[0]);
}

}  // namespace

LayerDef RoiMaskPoolingLayer() {
  return {
      .type = "ROIMaskPooling",
      .doc =
          "ROIPooling of regions scaled about their middle: the maximum over each of pooled_h x pooled_w bins of the "
          "regions in bottom 1 [R,5] (image, x1, y1, x2, y2 in image pixels) of bottom 0 [N,C,H,W]; the top is "
          "[R,C,pooled_h,pooled_w]. roi_scale multiplies a region's sides first; half_part takes its left (1), "
          "right (2), upper (3) or lower (4) half, up to the middle. mask_scale, a hole of zeros in the middle, is "
          "an error when over 0.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildRoiMaskPooling,
      .page = {
          .params = {"roi_mask_pooling_param"},
          .formula = "Region (n, x1, y1, x2, y2) becomes `xc -+ (x2 - x1) roi_scale / 2`, `xc = (x1 + x2) / 2`, "
                     "and rows likewise; with half_part 1 its right end is xc, with 2 its left end, with 3 its "
                     "lower end is yc, with 4 its upper end. y `[R,C,pooled_h,pooled_w]` is then ROIPooling's of "
                     "those regions.",
          .gradient = "x: each dy is added to the pixel its bin took, the first maximum (rows first). The regions "
                      "get none.",
          .source = "Yang, Yan, Lei, Li, \"CRAFT Objects from Images\", 2016, arXiv 1604.03239, and its cascade "
                    "ccnn (arXiv 1702.07054): roi_mask_pooling_layer of wk910930/ccnn, the CUDA version (the CPU's "
                    "ignores every field but the bins and spatial_scale). mask_scale is not built: no known net "
                    "sets it, and there a hole's pixel that wins gives its value, not the 0 it was compared as.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "pool"
  type: "ROIMaskPooling"
  bottom: "x"
  bottom: "rois"
  top: "pool"
  roi_mask_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 roi_scale: 1.8 }
})"}};
}

}  // namespace moka
