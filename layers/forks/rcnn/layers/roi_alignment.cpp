// ROIAlignment (AffordanceNet, Do et al. 2018; TomatoNet): one bilinear sample in the middle of each bin of a region.
// Bins are cut to the map first, so that of a bin which reaches beyond it the middle of the rest is sampled.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// The middles [R,count] of the bins from `begin` to `end` (columns of the regions) on an axis of `size` pixels.
ValueId Middles(const LayerBuilder& l, ValueId begin, ValueId end, int64_t count, int64_t size, double scale) {
  const Term first = Decimal(scale) * Term::Of(begin);
  const Term step = Max(Decimal(scale) * Term::Of(end) - first + 1, 1) / count;
  const auto edge = [&](int64_t i) { return Max(Min(first + i * step, size - 1), 0); };
  std::vector<Term> middles;
  for (int64_t bin = 0; bin < count; ++bin) middles.push_back(0.5 * (edge(bin) + edge(bin + 1)));
  const std::vector<ValueId> columns = l.b().Pointwise(middles, {begin, end});
  return l.b().Add1("concat", columns, {{"axis", int64_t{1}}});
}

void BuildRoiAlignment(LayerBuilder& l) {
  CheckRegionBottoms(l);
  const ROIAlignmentParameter& p = l.param().roi_alignment_param();
  const Attributes bins = BinsOf(l, "roi_alignment_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int64_t regions = l.shape(1).Count() / 5;
  const int64_t height = bins.Int("height");
  const int64_t width = bins.Int("width");
  const std::vector<ValueId> columns = RegionColumns(l);
  const ValueId rows = Middles(l, columns[2], columns[4], height, x[2], bins.Float("scale"));
  const ValueId across = Middles(l, columns[1], columns[3], width, x[3], bins.Float("scale"));
  // A bin is a region without extent around its middle: roi_align samples that point.
  const Shape line{(Size(regions) * height).value() * width, 1};
  const auto spread = [&](ValueId value, const Shape& shape) {
    return b.Reshape(b.Add1("expand", {b.Reshape(value, shape)}, {{"shape", Ints{regions, height, width}}}), line);
  };
  const ValueId image = spread(columns[0], Shape{regions, 1, 1});
  const ValueId v = b.Pointwise("x0+0.5", {spread(rows, Shape{regions, height, 1})});
  const ValueId u = b.Pointwise("x0+0.5", {spread(across, Shape{regions, 1, width})});
  const ValueId points = b.Add1("concat", {image, u, v, u, v}, {{"axis", int64_t{1}}});
  const ValueId samples = b.Add1("roi_align", {l.bottom(0), points},
                                 {{"height", int64_t{1}},
                                  {"width", int64_t{1}},
                                  {"scale", 1.0},
                                  {"sampling_ratio", int64_t{1}},
                                  {"aligned", true}});
  const ValueId cells = b.Reshape(samples, Shape{regions, height * width, x[1]});
  l.SetTop(0, b.Reshape(b.Add1("transpose", {cells}, {{"perm", Ints{0, 2, 1}}}), Shape{regions, x[1], height, width}));
}

}  // namespace

LayerDef RoiAlignmentLayer() {
  return {.type = "ROIAlignment",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildRoiAlignment,
          .needs = NeedRegions,
          .params = {"roi_alignment_param"}};
}

}  // namespace moka
