// PyramidAnchorTarget: what a region proposal network over a pyramid learns.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildPyramidAnchorTarget(LayerBuilder& l) {
  const PyramidParameter& p = l.param().pyramid_param();
  Attributes attributes = Together(AnchorsOfPyramid(l, l.bottom_count() - 2), PicturesOfBottom0(l));
  const auto each = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size()) / (l.bottom_count() - 2) / 4;
  Ints heights;
  Ints widths;
  for (int i = 2; i < l.bottom_count(); ++i) {
    const Shape map = l.shape(i);
    l.Check(map.rank() == 4 && map[0] == l.shape(0)[0] && map[1] == each, StrCat("bottom[", i, "]"),
            StrCat("bottom \"", l.param().bottom(i), "\" must be scores [", l.shape(0)[0], ",", each,
                   ",h,w] of a map, found ", map.ToString()));
    heights.push_back(map[2]);
    widths.push_back(map[3]);
  }
  l.Check(p.batch() >= 1, "pyramid_param.batch", "pyramid_param.batch must be at least 1");
  attributes = Together(
      attributes, {{"heights", heights},
                   {"widths", widths},
                   {"pictures", l.shape(0)[0]},
                   {"positive_overlap", PartOfField(l, "pyramid_param.positive_overlap", p.positive_overlap())},
                   {"negative_overlap", PartOfField(l, "pyramid_param.negative_overlap", p.negative_overlap())},
                   {"batch", int64_t{p.batch()}},
                   {"positive_fraction", PartOfField(l, "pyramid_param.positive_fraction", p.positive_fraction())},
                   {"stream", static_cast<int64_t>(RandomStreamOf(l))}});
  const std::vector<ValueId> tops = l.b().Add("pyramid_anchor_targets", {l.bottom(1), l.RandomKey()}, attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef PyramidAnchorTargetLayer() {
  return {.type = "PyramidAnchorTarget",
          .min_bottoms = 3,
          .max_bottoms = -1,
          .min_tops = 4,
          .max_tops = 4,
          .build = BuildPyramidAnchorTarget,
          .params = {"pyramid_param"}};
}

}  // namespace moka
