// Max pooling of regions (Girshick, "Fast R-CNN", 2015; caffe-fast-rcnn's roi_pooling_layer), and of R-C3D's windows in
// time (Xu, Das, Saenko, 2017, caffe3d's layer of the same name).
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// Regions enlarged by `ratio` of their sides at each end.
ValueId Enlarged(const LayerBuilder& l, double ratio) {
  std::vector<ValueId> columns = RegionColumns(l);
  for (size_t axis = 1; axis <= 2; ++axis) {
    const std::vector<ValueId> inputs{columns[axis], columns[axis + 2]};
    const Term low = Term::Of(inputs[0]);
    const Term high = Term::Of(inputs[1]);
    const Term pad = Decimal(ratio) * (high - low + 1);
    const std::vector<ValueId> ends = l.b().Pointwise(std::vector<Term>{low - pad, high + pad}, inputs);
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
  return {.type = "ROIPooling",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildRoiPooling,
          .needs = NeedRegions,
          .params = {"roi_pooling_param"}};
}

}  // namespace moka
