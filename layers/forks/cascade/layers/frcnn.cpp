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

constexpr const char* kSource =
    "Ren et al., \"Faster R-CNN\", 2015, arXiv 1506.01497; makefile/frcnn's layer of this name, with the settings of "
    "its "
    "voc_config.json (py-faster-rcnn's); the configuration is not read.";

}  // namespace

LayerDef FrcnnProposalLayer() {
  return {
      .type = "FrcnnProposal",
      .doc =
          "The proposals of a region proposal network: (rpn_cls_prob_reshape [1,18,H,W], rpn_bbox_pred [1,36,H,W], "
          "im_info) to regions [2000,5,1,1] in TRAIN (of the 12000 best), [300,5,1,1] in TEST (of 6000), and "
          "optionally "
          "their scores [..,1,1,1]; rows without a proposal are zeros. proposal_param.feat_stride is 16 unless given.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .max_tops = 2,
      .build = BuildProposal,
      .page = {
          .params = {"proposal_param"},
          .formula =
              "As the layer Proposal with base_size 16, ratios 0.5, 1 and 2, scales 8, 16 and 32, min_size 16 and "
              "nms_thresh 0.7.",
          .gradient = "None: no bottom gets one.",
          .source = kSource,
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 1 dim: 18 dim: 4 dim: 4 } } }
layer { name: "deltas" type: "Input" top: "deltas" input_param { shape { dim: 1 dim: 36 dim: 4 dim: 4 } } }
layer { name: "im_info" type: "Input" top: "im_info" input_param { shape { dim: 1 dim: 3 } } }
layer {
  name: "proposals"
  type: "FrcnnProposal"
  bottom: "scores"
  bottom: "deltas"
  bottom: "im_info"
  top: "rois"
  top: "roi_scores"
})"}};
}

LayerDef FrcnnAnchorTargetLayer() {
  return {
      .type = "FrcnnAnchorTarget",
      .doc =
          "What a region proposal network learns: (rpn_cls_score [1,18,H,W], gt_boxes [G,5] of (x1, y1, x2, y2, "
          "class), "
          "im_info) to labels [1,1,9*H,W] (1 at overlap 0.7 or the best of an object, 0 below 0.3, else -1; 256 of "
          "them, at most half positive), offsets, inside and outside weights [1,36,H,W].",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .min_tops = 4,
      .max_tops = 4,
      .build = BuildAnchorTarget,
      .page = {
          .params = {"proposal_param"},
          .formula = "As py-faster-rcnn's AnchorTargetLayer (see the layer Python), with 9 anchors at every 16 pixels: "
                     "ratios 0.5, 1 and 2, scales 8, 16 and 32 of a 16 pixel base.",
          .gradient = "None: no bottom gets one.",
          .source = kSource,
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 1 dim: 18 dim: 4 dim: 4 } } }
layer { name: "boxes" type: "Input" top: "boxes" input_param { shape { dim: 2 dim: 5 } } }
layer { name: "im_info" type: "Input" top: "im_info" input_param { shape { dim: 1 dim: 3 } } }
layer {
  name: "targets"
  type: "FrcnnAnchorTarget"
  bottom: "scores"
  bottom: "boxes"
  bottom: "im_info"
  top: "labels"
  top: "offsets"
  top: "inside"
  top: "outside"
})"}};
}

LayerDef FrcnnProposalTargetLayer() {
  return {
      .type = "FrcnnProposalTarget",
      .doc =
          "The regions a detector learns from: (rpn_rois [R,5], gt_boxes [G,5] of (x1, y1, x2, y2, class)) to regions "
          "[128,5,1,1], labels [128,1,1,1], offsets, inside and outside weights [128,4*cls_num,1,1]: a quarter at "
          "overlap "
          "0.5 or more; a smaller sample repeats its background. proposal_target_param.cls_num is 21 unless given.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .min_tops = 5,
      .max_tops = 5,
      .build = BuildProposalTarget,
      .page = {.params = {"proposal_target_param"},
               .formula =
                   "As py-faster-rcnn's ProposalTargetLayer (see the layer Python), with background of overlap 0 to "
                   "0.5 and offsets divided by 0.1, 0.1, 0.2 and 0.2.",
               .gradient = "None: no bottom gets one.",
               .source = kSource,
               .example = R"(layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 12 dim: 5 } } }
layer { name: "boxes" type: "Input" top: "boxes" input_param { shape { dim: 3 dim: 5 } } }
layer {
  name: "targets"
  type: "FrcnnProposalTarget"
  bottom: "rois"
  bottom: "boxes"
  top: "regions"
  top: "labels"
  top: "offsets"
  top: "inside"
  top: "outside"
  proposal_target_param { cls_num: 3 }
})"}};
}

}  // namespace moka
