// ROIAlign (He et al., "Mask R-CNN", 2017): regions pooled without rounding.
#include "layers/forks/rcnn/layers/roi_fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// MS-CNN's and Cascade R-CNN's layer of this name samples the corners of the bins, one more a side than there are, each
// half a pixel from the map at most. That is roi_align over regions that are half a bin larger, one sample a bin.
void BuildCorners(LayerBuilder& l) {
  const ROIPoolingParameter& p = l.param().roi_pooling_param();
  const double pad_ratio = PadRatioOf(l, "roi_pooling_param", p.pad_ratio());
  Attributes bins = BinsOf(l, "roi_pooling_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  std::vector<ValueId> columns = RegionColumns(l);
  const auto enlarged = [&](size_t axis, int64_t count) {
    const std::vector<ValueId> ends{columns[axis], columns[axis + 2]};
    const Term low = Term::Of(ends[0]);
    const Term high = Term::Of(ends[1]);
    const Term pad = Decimal(pad_ratio) * (high - low + 1);
    const Term more = pad + (high - low + 2 * pad) / (2 * count);
    return l.b().Pointwise(std::vector<Term>{low - more, high + more}, ends);
  };
  const std::vector<ValueId> x = enlarged(1, p.pooled_w());
  const std::vector<ValueId> y = enlarged(2, p.pooled_h());
  // A region without a side gives zeros: no image has it.
  const ValueId image = l.b().Pointwise("select(min(gt(x2,x1),gt(x4,x3)),x0,-1)", {columns[0], x[0], x[1], y[0], y[1]});
  const ValueId rois = l.b().Add1("concat", {image, x[0], y[0], x[1], y[1]}, {{"axis", int64_t{1}}});
  bins.Set("height", int64_t{p.pooled_h()} + 1);
  bins.Set("width", int64_t{p.pooled_w()} + 1);
  bins.Set("sampling_ratio", int64_t{1});
  bins.Set("aligned", true);
  bins.Set("pad_ratio", 0.0);
  bins.Set("margin", 0.5);
  l.SetTop(0, l.b().Add1("roi_align", {l.bottom(0), rois}, bins));
}

void BuildRoiAlign(LayerBuilder& l) {
  CheckRegionBottoms(l);
  if (l.param().has_roi_pooling_param()) {
    l.Check(!l.param().has_roi_align_param(), "roi_pooling_param",
            "there must be one of roi_align_param and roi_pooling_param, found both");
    l.Check(!l.NetHas("FrcnnProposal"), "roi_pooling_param",
            "the ROIAlign of makefile/frcnn, which reads roi_pooling_param, is not built; use roi_align_param");
    return BuildCorners(l);
  }
  const ROIAlignParameter& p = l.param().roi_align_param();
  Attributes bins = BinsOf(l, "roi_align_param", p.pooled_h(), p.pooled_w(), p.spatial_scale());
  const double pad_ratio = PadRatioOf(l, "roi_align_param", p.pad_ratio());
  l.Check(p.sampling_ratio() <= 1024, "roi_align_param.sampling_ratio",
          StrCat("roi_align_param.sampling_ratio must be at most 1024, found ", p.sampling_ratio()));
  bins.Set("sampling_ratio", int64_t{std::max(p.sampling_ratio(), 0)});
  bins.Set("aligned", p.aligned());
  bins.Set("pad_ratio", pad_ratio);
  l.SetTop(0, l.b().Add1("roi_align", {l.bottom(0), Regions(l)}, bins));
}

}  // namespace

LayerDef RoiAlignLayer() {
  return {.type = "ROIAlign",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildRoiAlign,
          .needs = NeedRegions,
          .params = {"roi_align_param", "roi_pooling_param"}};
}

}  // namespace moka
