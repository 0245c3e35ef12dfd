// Max pooling of regions (Girshick, "Fast R-CNN", 2015; caffe-fast-rcnn's roi_pooling_layer).
#include "layers/front/roi/layers.h"
#include "layers/front/roi/roi_fields.h"

namespace moka {
namespace {

// Regions enlarged by `ratio` of their sides at each end.
ValueId Enlarged(const LayerBuilder& l, double ratio) {
  std::vector<ValueId> columns = RegionColumns(l);
  for (size_t axis = 1; axis <= 2; ++axis) {
    const std::string pad = StrCat("t0=", Number(ratio), "*(x1-x0+1);");
    const std::vector<ValueId> ends =
        l.b().Pointwise(Strings{pad + "x0-t0", pad + "x1+t0"}, {columns[axis], columns[axis + 2]});
    columns[axis] = ends[0];
    columns[axis + 2] = ends[1];
  }
  return l.b().Add1("concat", columns, {{"axis", int64_t{1}}});
}

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
  const double pad_ratio = PadRatioOf(l, "roi_pooling_param", p.pad_ratio());
  const ValueId rois = pad_ratio > 0 ? Enlarged(l, pad_ratio) : Regions(l);
  l.SetTop(0, l.b().Add("roi_pool", {l.bottom(0), rois}, bins)[0]);
}

}  // namespace

LayerDef RoiPoolingLayer() {
  return {
      .type = "ROIPooling",
      .doc =
          "The maximum over each of pooled_h x pooled_w bins (or pooled_size, Intel) of the regions in bottom 1 [R,5] "
          "(image, x1, y1, x2, y2 in image pixels) of bottom 0 [N,C,H,W]; the top is [R,C,pooled_h,pooled_w]. "
          "Coordinates times spatial_scale are rounded, the last pixel belongs to the region, bins run from the floor "
          "of their start to the ceiling of their end, and an empty bin is 0. pad_ratio (MS-CNN) enlarges a region by "
          "that "
          "part of its side, `x2 - x1 + 1`, at each end first.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = Build,
      .page = {
          .params = {"roi_pooling_param"},
          .formula = "For region (image n, x1, y1, x2, y2): `start = round(x1 * spatial_scale)`, `extent = "
                     "max(round(x2 * spatial_scale) - start + 1, 1)`, `step = extent / pooled_w`; bin j covers pixels "
                     "`start + floor(j step)` to `start + ceil((j + 1) step)` (excluded), cut to the map; rows "
                     "likewise with pooled_h. `y[r,c,i,j]` is the maximum of channel c of image n over bin (i, j), 0 "
                     "if the bin is empty. y is `[R,C,pooled_h,pooled_w]`; halves round away from 0.",
          .gradient = "x: each dy is added to the pixel its bin took, the first maximum (rows first); an empty bin "
                      "gives none. The regions get none.",
          .source = "Girshick, \"Fast R-CNN\", 2015, arXiv 1504.08083; caffe-fast-rcnn's roi_pooling_layer. "
                    "`pooled_size` is the field of Intel's Caffe, `pad_ratio` that of MS-CNN's.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 4 dim: 5 } } }
layer {
  name: "pool"
  type: "ROIPooling"
  bottom: "x"
  bottom: "rois"
  top: "pool"
  roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.5 }
})"}};
}

}  // namespace moka
