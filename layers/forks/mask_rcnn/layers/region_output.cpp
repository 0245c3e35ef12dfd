// RegionOutput: what the second stage found.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRegionOutput(LayerBuilder& l) {
  const RegionOutputParameter& p = l.param().region_output_param();
  l.Check(p.max_detections() >= 1 && p.max_detections() <= 1000000, "region_output_param.max_detections",
          StrCat("region_output_param.max_detections must be from 1 to 1000000, found ", p.max_detections()));
  const std::vector<ValueId> tops = l.b().Add(
      "region_detections", {l.bottom(1), l.bottom(2), l.bottom(3)},
      Together(PicturesOfBottom0(l),
               {{"pictures", l.shape(0)[0]},
                {"most", int64_t{p.max_detections()}},
                {"threshold", Finite(l, "region_output_param.confidence_threshold", p.confidence_threshold())},
                {"nms_threshold", PartOfField(l, "region_output_param.nms_threshold", p.nms_threshold())},
                {"min_side", Finite(l, "region_output_param.min_side", p.min_side())},
                {"stds", StdsOfField(l, "region_output_param.std", p.std())}}));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef RegionOutputLayer() {
  return {.type = "RegionOutput",
          .min_bottoms = 4,
          .max_bottoms = 4,
          .max_tops = 3,
          .build = BuildRegionOutput,
          .params = {"region_output_param"}};
}

}  // namespace moka
