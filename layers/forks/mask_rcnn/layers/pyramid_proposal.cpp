// PyramidProposal: the regions of a pyramid that a second stage looks at.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPyramidProposal(LayerBuilder& l) {
  const PyramidParameter& p = l.param().pyramid_param();
  l.Check(l.bottom_count() % 2 == 1, "bottom",
          StrCat("PyramidProposal takes the pictures, then the scores and then the deltas of each map, found ",
                 l.bottom_count(), " bottoms"));
  l.Check(p.pre_nms() >= 1 && p.post_nms() >= 1 && p.pre_nms() <= 1000000 && p.post_nms() <= 1000000,
          "pyramid_param.post_nms",
          StrCat("pyramid_param.pre_nms and post_nms must be from 1 to 1000000, found ", p.pre_nms(), " and ",
                 p.post_nms()));
  const std::vector<ValueId> maps(l.bottoms().begin() + 1, l.bottoms().end());
  const std::vector<ValueId> tops =
      l.b().Add("pyramid_proposals", maps,
                Together(Together(AnchorsOfPyramid(l, l.bottom_count() / 2), PicturesOfBottom0(l)),
                         {{"pre_nms", int64_t{p.pre_nms()}},
                          {"post_nms", int64_t{p.post_nms()}},
                          {"nms_threshold", PartOfField(l, "pyramid_param.nms_threshold", p.nms_threshold())},
                          {"min_side", Finite(l, "pyramid_param.min_side", p.min_side())}}));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef PyramidProposalLayer() {
  return {.type = "PyramidProposal",
          .min_bottoms = 3,
          .max_bottoms = -1,
          .max_tops = 2,
          .build = BuildPyramidProposal,
          .params = {"pyramid_param"}};
}

}  // namespace moka
