// Max pooling of regions (Girshick, "Fast R-CNN", 2015; caffe-fast-rcnn's roi_pooling_layer), and of R-C3D's windows in
// time (Xu, Das, Saenko, 2017, caffe3d's layer of the same name).
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"

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

// caffe3d: the maximum over the frames of a window [R,3] and, whatever the map's size, over bins of its first 7 x 7
// pixels. The maximum of a frame comes first, then that of the frames.
void BuildInTime(LayerBuilder& l) {
  const ROIPoolingParameter& p = l.param().roi_pooling_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape windows = l.shape(1);
  l.Check(x.rank() == 5, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,C,L,H,W], found ", x.ToString()));
  l.Check(windows.rank() == 2 && windows[1] == 3, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [R,3] (item, first frame, last frame), found ",
                 windows.ToString()));
  const bool is_other = p.pooled_size_size() > 0 || p.pad_ratio() != 0;
  l.Check(!is_other, "roi_pooling_param", "roi_pooling_param.pooled_l goes without pooled_size and pad_ratio");
  Attributes bins = BinsOf(l, "roi_pooling_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  bins.Set("scale", 1.0);
  const double scale = Finite(l, "roi_pooling_param.temporal_scale", p.temporal_scale());
  l.Check(scale > 0 && p.pooled_l() <= 1 << 12, "roi_pooling_param",
          StrCat("roi_pooling_param.temporal_scale must be greater than 0 and pooled_l at most 4096, found ", scale,
                 " and ", p.pooled_l()));
  const auto frames = static_cast<int64_t>(p.pooled_h()) * p.pooled_w();
  const int64_t bins_in_time = p.pooled_l();
  const ValueId whole = Beside(b, {b.Full(Shape{1, 3}, 0), b.Full(Shape{1, 2}, 6)});
  const ValueId planes = b.Reshape(l.bottom(0), Shape{1, x.Count(0, 3), x[3], x[4]});
  const ValueId pooled = b.Reshape(b.Add("roi_pool", {planes, whole}, bins)[0], Shape{x[0], x[1], x[2], frames});
  const ValueId lines = b.Reshape(b.Add1("transpose", {pooled}, {{"perm", Ints{0, 1, 3, 2}}}),
                                  Shape{x[0], (Size(x[1]) * frames).value(), 1, x[2]});
  const std::vector<ValueId> window = Columns(b, l.bottom(1));
  const ValueId row = b.Full(Shape{windows[0], 1}, 0);
  const ValueId rois = Beside(b, {window[0], window[1], row, window[2], row});
  const ValueId y =
      b.Add("roi_pool", {lines, rois}, {{"height", int64_t{1}}, {"width", bins_in_time}, {"scale", scale}})[0];
  const ValueId split = b.Reshape(y, Shape{windows[0], x[1], frames, bins_in_time});
  l.SetTop(0, b.Reshape(b.Add1("transpose", {split}, {{"perm", Ints{0, 1, 3, 2}}}),
                        Shape{windows[0], x[1], bins_in_time, int64_t{p.pooled_h()}, int64_t{p.pooled_w()}}));
}

void BuildRoiPooling(LayerBuilder& l) {
  const ROIPoolingParameter& p = l.param().roi_pooling_param();
  if (p.pooled_l() > 0) return BuildInTime(l);
  CheckRegionBottoms(l);
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
          "part of its side, `x2 - x1 + 1`, at each end first. With pooled_l (R-C3D) the regions are windows in time "
          "[R,3] (item, first frame, last frame) of bottom 0 [N,C,L,H,W], and the top is [R,C,pooled_l,pooled_h,"
          "pooled_w]: frames times temporal_scale, and of every frame its first 7 x 7 pixels.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildRoiPooling,
      .page = {
          .params = {"roi_pooling_param"},
          .formula = "For region (image n, x1, y1, x2, y2): `start = round(x1 * spatial_scale)`, `extent = "
                     "max(round(x2 * spatial_scale) - start + 1, 1)`, `step = extent / pooled_w`; bin j covers pixels "
                     "`start + floor(j step)` to `start + ceil((j + 1) step)` (excluded), cut to the map; rows "
                     "likewise with pooled_h. `y[r,c,i,j]` is the maximum of channel c of image n over bin (i, j), 0 "
                     "if the bin is empty. y is `[R,C,pooled_h,pooled_w]`; halves round away from 0.\n\npooled_l: "
                     "bins of frames likewise with temporal_scale and pooled_l; rows and columns are 0 to 6 of the "
                     "map, without spatial_scale. y is `[R,C,pooled_l,pooled_h,pooled_w]`.",
          .gradient = "x: each dy is added to the pixel its bin took, the first maximum (rows first); an empty bin "
                      "gives none. The regions get none.",
          .source = "Girshick, \"Fast R-CNN\", 2015, arXiv 1504.08083; caffe-fast-rcnn's roi_pooling_layer. "
                    "`pooled_size` is the field of Intel's Caffe, `pad_ratio` that of MS-CNN's; `pooled_l` and "
                    "`temporal_scale` are R-C3D's (Xu, Das, Saenko, 2017, arXiv 1703.07814), whose layer reads no "
                    "spatial_scale either.",
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
