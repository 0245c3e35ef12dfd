// ROIMaskPooling (CRAFT, Yang et al. 2016; ccnn): ROIPooling of regions that are scaled about their middle or halved.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

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
    const std::vector<ValueId> inputs{columns[axis], columns[axis + 2]};
    const Term middle = 0.5 * (Term::Of(inputs[0]) + Term::Of(inputs[1]));
    const Term half = 0.5 * Decimal(scale) * (Term::Of(inputs[1]) - Term::Of(inputs[0]));
    const bool is_first = p.half_part() == first;
    const bool is_last = p.half_part() == last;
    return b.Pointwise(std::vector<Term>{is_last ? middle : middle - half, is_first ? middle : middle + half}, inputs);
  };
  const std::vector<ValueId> x = ends(1, 1, 2);
  const std::vector<ValueId> y = ends(2, 3, 4);
  const ValueId rois = b.Add1("concat", {columns[0], x[0], y[0], x[1], y[1]}, {{"axis", int64_t{1}}});
  l.SetTop(0, b.Add("roi_pool", {l.bottom(0), rois}, bins)[0]);
}

}  // namespace

LayerDef RoiMaskPoolingLayer() {
  return {.type = "ROIMaskPooling",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildRoiMaskPooling,
          .needs = NeedRegions,
          .params = {"roi_mask_pooling_param"}};
}

}  // namespace moka
