// The Python layers of py-faster-rcnn's region proposal networks and of R-FCN's. What they read from fast_rcnn.config
// has its defaults, of the end-to-end recipes. R-FCN's dialect is known by the net: with a PSROIPooling layer proposals
// are 6000 before and 300 after suppression in training too, and targets have four axes; with a layer that mines hard
// examples (BoxAnnotatorOHEM, or OHEM's own OHEMDataLayer) every proposal becomes a region.
#include <algorithm>

#include "core/text.h"
#include "layers/forks/rcnn/layers/anchors.h"
#include "layers/forks/rcnn/layers/rpn.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

bool IsRfcn(const LayerBuilder& l) { return l.NetHas("PSROIPooling"); }

void BuildProposal(LayerBuilder& l, const PythonFields& fields) {
  if (l.bottom_count() == 2 && l.shape(0).rank() == 5) return BuildProposalInTime(l, fields);
  if (l.top_count() == 3) return BuildMatchedProposal(l, fields);
  l.Check(l.bottom_count() == 3, "bottom",
          StrCat("ProposalLayer takes 3 bottoms (2 for windows in time), found ", l.bottom_count()));
  const std::vector<ValueId> tops = l.b().Add("proposals", l.bottoms(), ProposalFields(l, fields));
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

void BuildAnchorTarget(LayerBuilder& l, const PythonFields& fields) {
  if (l.shape(0).rank() == 5) return BuildAnchorTargetInTime(l, fields);
  BuildAnchorTargets(l, fields, {});
}

// The value with axes of 1 to rank 4.
ValueId FourAxes(const GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  return b.Reshape(x, Shape{shape[0], shape.Count(1, shape.rank()), 1, 1});
}

void BuildProposalTarget(LayerBuilder& l, const PythonFields& fields) {
  const Shape rois = l.shape(0);
  if (rois.rank() == 2 && rois[1] == 3) return BuildProposalTargetInTime(l, fields);
  const bool is_ohem = l.NetHas("BoxAnnotatorOHEM") || l.NetHas("OHEMDataLayer");
  const double low = IsRfcn(l) && !is_ohem ? 0.1 : 0;
  const double batch = fields.Number("batch_size", is_ohem ? -1 : 128);
  const bool takes_all = batch == -1;
  const Attributes attributes{{"rows", takes_all ? 1 : fields.Count("batch_size", 128, 1)},
                              {"all", takes_all},
                              {"classes", fields.Count("num_classes", 2)},
                              {"fg_fraction", Doubles{fields.Number("fg_fraction", 0.25)}},
                              {"fg_low", Doubles{fields.Number("fg_thresh", 0.5)}},
                              {"bg_low", Doubles{fields.Number("bg_thresh_lo", low)}},
                              {"bg_high", Doubles{fields.Number("bg_thresh_hi", 0.5)}},
                              {"means", fields.Numbers("bbox_normalize_means", {0, 0, 0, 0})},
                              {"stds", fields.Numbers("bbox_normalize_stds", {0.1, 0.1, 0.2, 0.2})},
                              {"weights", fields.Numbers("bbox_inside_weights", {1, 1, 1, 1})},
                              {"stream", StreamOf(l)}};
  const std::vector<ValueId> tops =
      l.b().Add("proposal_targets", {l.bottom(0), l.bottom(1), l.RandomKey()}, attributes);
  for (int i = 0; i < l.top_count(); ++i) {
    const ValueId top = tops[static_cast<size_t>(i)];
    l.SetTop(i, IsRfcn(l) ? FourAxes(l.b(), top) : top);
  }
}

}  // namespace

constexpr int64_t kMostAnchors = 1024;  // a cell, of modules that only tell how many they have

Attributes AnchorFields(const LayerBuilder& l, const PythonFields& fields) {
  Doubles ratios = fields.Numbers("ratios", {0.5, 1, 2});
  Doubles scales = fields.Numbers("scales", {8, 16, 32});
  const Shape scores = l.shape(0);
  const int64_t anchors = scores.rank() == 4 ? scores[1] / 2 : 0;
  const bool are_stated = fields.Has("ratios") || fields.Has("scales");
  if (l.FeedsPythonData() && !are_stated && anchors > 0 && anchors <= kMostAnchors && anchors != 9) {
    // A copy of the module with anchors of its own, which only tells their number: the net is Python's.
    static_cast<void>(l.AskDataTypes());
    ratios = {1};
    scales.assign(static_cast<size_t>(anchors), 8);
  }
  for (const Doubles* list : {&ratios, &scales}) {
    l.Check(std::ranges::all_of(*list, [](double v) { return v > 0; }), "python_param.param_str",
            "python_param.param_str: 'ratios' and 'scales' must be greater than 0");
  }
  const double base = static_cast<double>(fields.Count("base_size", 16, 1));
  return {{"anchors", GenerateAnchors(base, ratios, scales)},
          {"stride", static_cast<double>(fields.Count("feat_stride", 1))}};
}

Attributes ProposalFields(const LayerBuilder& l, const PythonFields& fields) {
  const bool is_short = l.phase() == TEST || IsRfcn(l);
  Attributes attributes = AnchorFields(l, fields);
  attributes.Set("pre_nms", fields.Count("pre_nms_topn", is_short ? 6000 : 12000, 0));
  attributes.Set("post_nms", fields.Count("post_nms_topn", is_short ? 300 : 2000, 1));
  attributes.Set("nms_threshold", fields.Number("nms_thresh", 0.7));
  // Fields of mtnet, which keeps small boxes.
  attributes.Set("min_size", fields.Number("min_size", fields.Has("has_extra") ? 0 : 16));
  return attributes;
}

void SetSampling(const LayerBuilder& l, const PythonFields& fields, int64_t batch, Attributes& attributes) {
  attributes.Set("allowed_border", fields.Number("allowed_border", 0));
  attributes.Set("positive_overlap", fields.Number("positive_overlap", 0.7));
  attributes.Set("negative_overlap", fields.Number("negative_overlap", 0.3));
  attributes.Set("clobber_positives", fields.Flag("clobber_positives", false));
  attributes.Set("fg_fraction", fields.Number("fg_fraction", 0.5));
  attributes.Set("batch", fields.Count("batch_size", batch, 1));
  attributes.Set("positive_weight", fields.Number("positive_weight", -1));
  attributes.Set("stream", StreamOf(l));
}

void BuildAnchorTargets(LayerBuilder& l, const PythonFields& fields, const std::vector<ValueId>& more) {
  const Shape scores = l.shape(0);
  l.Check(scores.rank() == 4 && scores[0] == 1, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [1,2A,H,W], found ", scores.ToString()));
  Attributes attributes = AnchorFields(l, fields);
  attributes.Set("height", scores[2]);
  attributes.Set("width", scores[3]);
  SetSampling(l, fields, 256, attributes);
  std::vector<ValueId> inputs = {WithClass(l, 1), l.bottom(2), l.RandomKey()};
  inputs.insert(inputs.end(), more.begin(), more.end());
  const std::vector<ValueId> tops = l.b().Add("anchor_targets", inputs, attributes);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

std::vector<PythonLayerDef> RpnPythonLayers() {
  return {
      {.module = "rpn.anchor_target_layer",
       .layer = "AnchorTargetLayer",
       .doc =
           "(rpn_cls_score [1,2A,H,W], gt_boxes [G,5], im_info[, data]) -> labels [1,1,A*H,W] (1 at overlap 0.7 or "
           "best of a true box, 0 below 0.3, else -1; 256 of them, at most half positive), targets, inside and outside "
           "weights [1,4A,H,W]. R-C3D: (scores [1,2A,L,1,1], gt_boxes [G,3] (first frame, last frame, class), clips) "
           "-> labels [1,1,A*L,1,1], the others [1,2A,L,1,1]; 64 windows have a label.",
       .min_bottoms = 3,
       .max_bottoms = 4,
       .min_tops = 4,
       .max_tops = 4,
       .build = BuildAnchorTarget},
      {.module = "rpn.proposal_layer",
       .layer = "ProposalLayer",
       .doc =
           "(rpn_cls_prob_reshape [1,2A,H,W], rpn_bbox_pred [1,4A,H,W], im_info) -> rois [2000,5] in TRAIN (of 12000), "
           "[300,5] in TEST (of 6000)[, scores]; rows without a proposal are zeros. No gradient. R-C3D: (scores and "
           "deltas [1,2A,L,1,1]) -> windows in time [2000,3] or [300,3]. mtnet, with gt_boxes [G,4] as a fourth bottom "
           "and 3 tops: a sample of the proposals, labels (1, 0, -1: no proposal) and each one's true box; small boxes "
           "stay.",
       .min_bottoms = 2,
       .max_bottoms = 4,
       .min_tops = 1,
       .max_tops = 3,
       .build = BuildProposal},
      {.module = "rpn.proposal_target_layer",
       .layer = "ProposalTargetLayer",
       .doc =
           "(rpn_rois [R,5], gt_boxes [G,5]) -> rois [128,5], labels [128], bbox_targets, bbox_inside_weights and "
           "bbox_outside_weights [128,4*num_classes]: a quarter at overlap 0.5 or more; a smaller sample repeats its "
           "background. R-FCN's tops have four axes; with OHEM all R + G regions are taken; num_classes 2 serves "
           "class-agnostic boxes. R-C3D: (windows [R,3], gt_boxes [G,3]) -> windows [128,3], labels [128], the others "
           "[128,2*num_classes].",
       .min_bottoms = 2,
       .max_bottoms = 2,
       .min_tops = 5,
       .max_tops = 5,
       .build = BuildProposalTarget},
  };
}

}  // namespace moka
