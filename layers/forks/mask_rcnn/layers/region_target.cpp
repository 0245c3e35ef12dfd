// RegionTarget: what the second stage learns.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildRegionTarget(LayerBuilder& l) {
  const RegionTargetParameter& p = l.param().region_target_param();
  l.Check(l.top_count() == 5 || l.top_count() == 8, "top",
          StrCat("RegionTarget has 5 tops, or 8 with those for masks, found ", l.top_count()));
  l.Check(p.classes() >= 2, "region_target_param.classes",
          StrCat("region_target_param.classes must be at least 2 (the background counts), found ", p.classes()));
  l.Check(p.rows() >= 1 && p.rows() <= 1000000, "region_target_param.rows",
          StrCat("region_target_param.rows must be from 1 to 1000000, found ", p.rows()));
  const double fraction = PartOfField(l, "region_target_param.foreground_fraction", p.foreground_fraction());
  const auto foreground = static_cast<int64_t>(static_cast<double>(p.rows()) * fraction);
  const int64_t mask_rows = p.has_mask_rows() ? int64_t{p.mask_rows()} : std::max<int64_t>(foreground, 1);
  l.Check(mask_rows >= 1 && mask_rows <= 1000000, "region_target_param.mask_rows",
          StrCat("region_target_param.mask_rows must be from 1 to 1000000, found ", mask_rows));
  const std::vector<ValueId> tops = l.b().Add(
      "picture_regions", {l.bottom(1), l.bottom(2), l.RandomKey()},
      Together(PicturesOfBottom0(l), {{"pictures", l.shape(0)[0]},
                                      {"rows", int64_t{p.rows()}},
                                      {"mask_rows", mask_rows},
                                      {"classes", int64_t{p.classes()}},
                                      {"foreground_fraction", fraction},
                                      {"foreground_overlap", PartOfField(l, "region_target_param.foreground_overlap",
                                                                         p.foreground_overlap())},
                                      {"stds", StdsOfField(l, "region_target_param.std", p.std())},
                                      {"stream", static_cast<int64_t>(RandomStreamOf(l))}}));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef RegionTargetLayer() {
  return {.type = "RegionTarget",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .min_tops = 5,
          .max_tops = 8,
          .build = BuildRegionTarget,
          .params = {"region_target_param"}};
}

}  // namespace moka
