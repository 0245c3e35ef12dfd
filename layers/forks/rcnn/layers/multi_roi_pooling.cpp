// MultiROIPooling (PG-CNN and gACNN, Li et al. 2018): windows of one size around the points of a face, a top a point.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// The first pixel of windows of `size` around a coordinate: halves round away from 0.
Term First(ValueId coordinate, int64_t size, double scale) {
  const Term first = Decimal(scale) * Term::Of(coordinate) - size / 2;
  const Term rounded = Floor(Abs(first) + 0.5);
  return Select(first < 0, -rounded, rounded);
}

void BuildMultiRoiPooling(LayerBuilder& l) {
  const MultiROIPoolingParameter& p = l.param().multi_roi_pooling_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape points = l.shape(1);
  l.Check(x.rank() == 4, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,C,H,W], found ", x.ToString()));
  const int64_t count = p.top_num();
  l.Check(count == l.top_count(), "multi_roi_pooling_param.top_num",
          StrCat("multi_roi_pooling_param.top_num is ", count, " but the layer has ", l.top_count(), " tops"));
  const bool fits =
      points.rank() >= 2 && points[0] == x[0] && points[1] == count && points.Count(2, points.rank()) == 2;
  l.Check(fits, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [", x[0], ",", count,
                 ",2] (x and y of each point), found ", points.ToString()));
  Attributes bins = BinsOf(l, "multi_roi_pooling_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  const double scale = bins.Float("scale");
  bins.Set("scale", 1.0);
  const int64_t height = bins.Int("height");
  const int64_t width = bins.Int("width");
  // Point by point, image by image: a window is a region of as many pixels as bins, and beyond the map it is 0.
  const ValueId by_point =
      b.Add1("transpose", {b.Reshape(l.bottom(1), Shape{x[0], count, 2})}, {{"perm", Ints{1, 0, 2}}});
  const std::vector<ValueId> xy = b.Add("slice", {b.Reshape(by_point, Shape{(Size(count) * x[0]).value(), 2})},
                                        {{"axis", int64_t{1}}, {"sizes", Ints{1, 1}}});
  const ValueId images = b.Add1("filter_index", {b.Full(Shape{x[0]}, 1)});
  const ValueId image =
      b.Reshape(b.Add1("expand", {b.Reshape(images, Shape{1, x[0]})}, {{"shape", Ints{count, x[0]}}}), b.shape(xy[0]));
  const ValueId left = Computed(b, First(xy[0], width, scale));
  const ValueId top = Computed(b, First(xy[1], height, scale));
  const ValueId right = Computed(b, Term::Of(left) + (width - 1));
  const ValueId bottom = Computed(b, Term::Of(top) + (height - 1));
  const ValueId rois = b.Add1("concat", {image, left, top, right, bottom}, {{"axis", int64_t{1}}});
  const ValueId windows = b.Add("roi_pool", {l.bottom(0), rois}, bins)[0];
  const std::vector<ValueId> tops =
      b.Add("slice", {windows}, {{"axis", int64_t{0}}, {"sizes", Ints(static_cast<size_t>(count), x[0])}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef MultiRoiPoolingLayer() {
  return {.type = "MultiROIPooling",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = -1,
          .build = BuildMultiRoiPooling,
          .needs = NeedRegions,
          .params = {"multi_roi_pooling_param"}};
}

}  // namespace moka
