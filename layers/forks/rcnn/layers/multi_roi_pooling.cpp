// MultiROIPooling (PG-CNN and gACNN, Li et al. 2018): windows of one size around the points of a face, a top a point.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// The first pixel of windows of `size` around the coordinate x0: halves round away from 0.
std::string First(int64_t size, double scale) {
  return StrCat("t0=", Number(scale), "*x0-", size / 2, ";t1=floor(abs(t0)+0.5);select(lt(t0,0),-t1,t1)");
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
  const ValueId left = b.Pointwise(First(width, scale), {xy[0]});
  const ValueId top = b.Pointwise(First(height, scale), {xy[1]});
  const ValueId right = b.Pointwise(StrCat("x0+", width - 1), {left});
  const ValueId bottom = b.Pointwise(StrCat("x0+", height - 1), {top});
  const ValueId rois = b.Add1("concat", {image, left, top, right, bottom}, {{"axis", int64_t{1}}});
  const ValueId windows = b.Add("roi_pool", {l.bottom(0), rois}, bins)[0];
  const std::vector<ValueId> tops =
      b.Add("slice", {windows}, {{"axis", int64_t{0}}, {"sizes", Ints(static_cast<size_t>(count), x[0])}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef MultiRoiPoolingLayer() {
  return {
      .type = "MultiROIPooling",
      .doc =
          "Windows of pooled_h x pooled_w pixels around the points in bottom 1 [N,P,2] (x, y in image pixels) of "
          "bottom 0 [N,C,H,W]: top i is [N,C,pooled_h,pooled_w], the windows around point i of each image. top_num "
          "must be P and the number of tops; what of a window lies beyond the map is 0.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = -1,
      .build = BuildMultiRoiPooling,
      .page = {
          .params = {"multi_roi_pooling_param"},
          .formula = "For point (px, py) of image n: `left = round(px spatial_scale - floor(pooled_w / 2))`, `up = "
                     "round(py spatial_scale - floor(pooled_h / 2))`, halves away from 0; `y[n,c,i,j] = x[n,c,up + "
                     "i,left + j]`, 0 outside the map. Each of the P tops is `[N,C,pooled_h,pooled_w]`.",
          .gradient = "x: each dy is added to the pixel it was taken from. The points get none.",
          .source = "Li, Zeng, Shan, Chen, \"Occlusion aware facial expression recognition using CNN with "
                    "attention mechanism\", TIP 2018: multi_roi_pooling_layer of mysee1989/PG-CNN. There the "
                    "gradient of every row of a window is that of its first row; here each row has its own.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "points" type: "Input" top: "points" input_param { shape { dim: 2 dim: 3 dim: 2 } } }
layer {
  name: "windows"
  type: "MultiROIPooling"
  bottom: "x"
  bottom: "points"
  top: "eye"
  top: "nose"
  top: "mouth"
  multi_roi_pooling_param { pooled_h: 4 pooled_w: 4 spatial_scale: 0.5 top_num: 3 }
})"}};
}

}  // namespace moka
