// The C++ layers of makefile/frcnn's Faster R-CNN: what py-faster-rcnn's Python layers do (Ren et al., 2015), with the
// settings of its JSON configuration, which is not read: those of its voc_config.json hold, which are py-faster-rcnn's.
#include "layers/forks/cascade/layers/fields.h"
#include "layers/forks/rcnn/layers/anchors.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

constexpr int64_t kClasses = 21;  // VOC's

Attributes Anchors(const LayerBuilder& l) {
  const ProposalParameter& p = l.param().proposal_param();
  const bool has_stride = p.has_feat_stride() && p.feat_stride() > 0;
  return {{"anchors", GenerateAnchors(16, {0.5, 1, 2}, {8, 16, 32})},
          {"stride", has_stride ? static_cast<double>(p.feat_stride()) : 16.0}};
}

void BuildProposal(LayerBuilder& l) {
  const bool is_train = l.phase() == TRAIN;
  Attributes attributes = Anchors(l);
  attributes.Set("pre_nms", int64_t{is_train ? 12000 : 6000});
  attributes.Set("post_nms", int64_t{is_train ? 2000 : 300});
  attributes.Set("nms_threshold", 0.7);
  attributes.Set("min_size", 16.0);
  const std::vector<ValueId> tops = l.b().Add("proposals", l.bottoms(), attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, FourAxes(l.b(), tops[static_cast<size_t>(i)]));
}

void BuildAnchorTarget(LayerBuilder& l) {
  const Shape scores = l.shape(0);
  l.Check(scores.rank() == 4 && scores[0] == 1, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [1,2A,H,W], found ", scores.ToString()));
  Attributes attributes = Anchors(l);
  attributes.Set("height", scores[2]);
  attributes.Set("width", scores[3]);
  attributes.Set("stream", static_cast<int64_t>(RandomStreamOf(l)));
  const std::vector<ValueId> tops = l.b().Add("anchor_targets", {l.bottom(1), l.bottom(2), l.RandomKey()}, attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

void BuildProposalTarget(LayerBuilder& l) {
  const ProposalTargetParameter& p = l.param().proposal_target_param();
  l.Check(p.stage() == 0, "proposal_target_param.stage",
          StrCat("proposal_target_param.stage must be 0 (the first stage), found ", p.stage()));
  const int64_t classes = p.has_cls_num() ? p.cls_num() : kClasses;
  l.Check(classes >= 2, "proposal_target_param.cls_num", "proposal_target_param.cls_num must be at least 2");
  const std::vector<ValueId> tops =
      l.b().Add("proposal_targets", {l.bottom(0), l.bottom(1), l.RandomKey()},
                {{"rows", int64_t{128}}, {"classes", classes}, {"stream", static_cast<int64_t>(RandomStreamOf(l))}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, FourAxes(l.b(), tops[static_cast<size_t>(i)]));
}

}  // namespace

LayerDef FrcnnProposalLayer() {
  return {.type = "FrcnnProposal",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .max_tops = 2,
          .build = BuildProposal,
          .params = {"proposal_param"}};
}

LayerDef FrcnnAnchorTargetLayer() {
  return {.type = "FrcnnAnchorTarget",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .min_tops = 4,
          .max_tops = 4,
          .build = BuildAnchorTarget,
          .params = {"proposal_param"}};
}

LayerDef FrcnnProposalTargetLayer() {
  return {.type = "FrcnnProposalTarget",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 5,
          .max_tops = 5,
          .build = BuildProposalTarget,
          .params = {"proposal_target_param"}};
}

}  // namespace moka
