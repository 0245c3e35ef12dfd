// The Python layers of multi-task network cascades (Dai et al. 2016, MNC's lib/pylayer). Unlike Faster R-CNN's, boxes
// have a gradient: a layer takes the values of its op and adds what the differentiable way to the same boxes
// contributes, which is 0 forward (x - stop_gradient(x)). The gradients are those of the formulas; the originals leave
// out the + 1 of widths and, in StageBridge, mix up columns.
#include "core/text.h"
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/forks/rcnn/layers/rpn.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

constexpr int64_t kMaskSize = 21;

// `value` with the gradient of `path` where gate is not 0.
ValueId WithGradient(const GraphBuilder& b, ValueId value, ValueId path, ValueId gate) {
  const ValueId still = b.Add1("stop_gradient", {path});
  return b.Pointwise("x0+select(x3,x1-x2,0)", {value, path, still, gate});
}

ValueId Clipped(const LayerBuilder& l, const PythonFields& fields, ValueId deltas, int64_t clip_base) {
  if (!fields.Flag("use_clip", false)) return deltas;
  const auto base = static_cast<double>(fields.Count("clip_base", clip_base, 1));
  return l.b().Add1("clip_gradient", {deltas}, {{"threshold", 1 / base}});
}

void BuildProposal(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const std::vector<ValueId> found = b.Add("proposals", l.bottoms(), ProposalFields(l, fields));
  const int64_t rows = b.shape(found[0])[0];
  if (l.top_count() > 1) {
    const ValueId index = b.Add1("cast", {found[2]}, {{"dtype", std::string("float32")}});
    l.SetTop(1, b.Reshape(index, Shape{1, rows}));
  }
  if (l.phase() == TEST) return l.SetTop(0, found[0]);
  const ValueId deltas = b.Add1("transpose", {Clipped(l, fields, l.bottom(1), 256)}, {{"perm", Ints{0, 2, 3, 1}}});
  const ValueId each = b.Reshape(deltas, Shape{b.shape(deltas).Count() / 4, 4});
  const ValueId taken = b.Add1("take_rows", {each, found[2]});
  l.SetTop(0, WithGradient(b, found[0], AsRois(b, Moved(b, found[3], taken)), found[4]));
}

void BuildAnchorTarget(LayerBuilder& l, const PythonFields& fields) {
  std::vector<ValueId> more;  // fg_inds and bg_inds; a fourth bottom alone is the image, of which nothing is read
  if (l.bottom_count() == 5) more = {l.bottom(3), l.bottom(4)};
  BuildAnchorTargets(l, fields, more);
}

// The values of "mask_targets" for regions that "proposal_targets" made; truth is gt_boxes, gt_masks, mask_info,
// im_info.
std::vector<ValueId> Masks(const LayerBuilder& l, const std::vector<ValueId>& regions, const std::vector<int>& truth) {
  return l.b().Add("mask_targets",
                   {regions[0], regions[1], regions[6], l.bottom(truth[0]), l.bottom(truth[1]), l.bottom(truth[2]),
                    l.bottom(truth[3])},
                   {{"size", kMaskSize}});
}

// 1 for foreground rows, [M,1].
ValueId Foreground(const GraphBuilder& b, const std::vector<ValueId>& regions) {
  return b.Pointwise("ge(x0,0)", {b.Reshape(regions[6], Shape{b.shape(regions[6])[0], 1})});
}

void BuildProposalTarget(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const bool has_masks = l.top_count() > 5;
  const bool has_index = l.top_count() > 8;
  l.Check(l.top_count() == 5 || l.top_count() == 8 || l.top_count() == 10, "top",
          StrCat("ProposalTargetLayer takes 5, 8 or 10 tops, found ", l.top_count()));
  const int needed = has_index ? 6 : has_masks ? 5 : 2;
  l.Check(l.bottom_count() >= needed, "bottom",
          StrCat("with ", l.top_count(), " tops it takes ", needed, " bottoms, found ", l.bottom_count()));
  const std::vector<ValueId> regions = b.Add("proposal_targets", {l.bottom(0), l.bottom(1), l.RandomKey()},
                                             {{"rows", fields.Count("batch_size", 64, 1)},
                                              {"classes", fields.Count("num_classes", 2)},
                                              {"fg_fraction", Doubles{0.3}},
                                              {"bg_fraction", Doubles{0.85, 0.15}},
                                              {"bg_low", Doubles{0.1, 0}},
                                              {"bg_high", Doubles{0.5, 0.1}},
                                              {"bg_closed", true},
                                              {"stream", StreamOf(l)}});
  const int64_t rows = b.shape(regions[0])[0];
  const ValueId foreground = Foreground(b, regions);
  const ValueId gate = fields.Flag("bp_all", true) ? b.Full(Shape{rows, 1}, 1) : foreground;
  const ValueId rois = b.Reshape(l.bottom(0), Shape{l.shape(0)[0], 5});
  l.SetTop(0, WithGradient(b, regions[0], b.Add1("take_rows", {rois, regions[5]}), gate));
  for (int i = 1; i < 5; ++i) l.SetTop(i, regions[static_cast<size_t>(i)]);
  if (has_masks) {
    const std::vector<ValueId> masks = Masks(l, regions, {1, 3, 4, 2});
    for (int i = 0; i < 3; ++i) l.SetTop(5 + i, masks[static_cast<size_t>(i)]);
  }
  if (!has_index) return;
  // Anchors of the sampled proposals; true boxes and the other kind have -1.
  const ValueId shifted = b.Pointwise("x0+1", {b.Reshape(l.bottom(5), Shape{l.shape(5).Count(), 1})});
  const ValueId anchors = b.Add1("take_rows", {shifted, regions[5]});
  l.SetTop(8, b.Reshape(b.Pointwise("select(x1,x0-1,-1)", {anchors, foreground}), Shape{rows}));
  l.SetTop(9, b.Reshape(b.Pointwise("select(x1,-1,x0-1)", {anchors, foreground}), Shape{rows}));
}

// TRAIN: (masks [M,441], gt_masks, gt_masks_info) -> masks as maps, their classes; only masks with a class pass on a
// gradient. TEST: (masks) -> masks as maps.
void BuildMask(LayerBuilder& l, const PythonFields&) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int64_t rows = x.rank() == 0 ? 0 : x[0];
  l.Check(x.rank() >= 2 && x.Count(1, x.rank()) == kMaskSize * kMaskSize, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [M,441] (masks of 21 x 21), found ", x.ToString()));
  const ValueId maps = b.Reshape(l.bottom(0), Shape{rows, 1, kMaskSize, kMaskSize});
  if (l.top_count() == 1) return l.SetTop(0, maps);
  l.Check(l.bottom_count() == 3, "bottom", StrCat("with 2 tops it takes 3 bottoms, found ", l.bottom_count()));
  const ValueId labels = b.Add1("mask_labels", {l.bottom(0), l.bottom(1), l.bottom(2)});
  const ValueId gate = b.Pointwise("gt(x0,0)", {b.Reshape(labels, Shape{rows, 1, 1, 1})});
  l.SetTop(0, WithGradient(b, b.Add1("stop_gradient", {maps}), maps, gate));
  l.SetTop(1, labels);
}

// Regions [N,5] moved by the best class's deltas and cut to the image.
ValueId Refined(const LayerBuilder& l, ValueId deltas, int64_t first_class, ValueId im_info) {
  const GraphBuilder& b = l.b();
  const Shape info = b.shape(im_info);
  l.Check(info.rank() == 2 && info[0] == 1 && info[1] >= 3, "bottom",
          StrCat("im_info must be [1,3] (height, width, scale), found ", info.ToString()));
  const std::vector<ValueId> size = Columns(b, im_info, {1, 1, info[1] - 2});
  const ValueId picked = b.Add1("pick_boxes", {deltas, l.bottom(2)}, {{"first_class", first_class}});
  const ValueId rois = b.Reshape(l.bottom(0), Shape{l.shape(0)[0], 5});
  std::vector<ValueId> moved = Moved(b, Columns(b, rois, {1, 4})[1], picked);
  for (size_t i = 0; i < moved.size(); ++i) {
    moved[i] = b.Pointwise("max(min(x0,x1-1),0)", {moved[i], size[i % 2 == 0 ? 1 : 0]});
  }
  return AsRois(b, moved);
}

void BuildStageBridge(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const Shape rois = l.shape(0);
  l.Check(rois.rank() >= 2 && rois.Count(1, rois.rank()) == 5, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [R,5], found ", rois.ToString()));
  if (l.top_count() == 1) {
    l.Check(l.bottom_count() == 4, "bottom", StrCat("with 1 top it takes 4 bottoms, found ", l.bottom_count()));
    return l.SetTop(0, Refined(l, l.bottom(1), 0, l.bottom(3)));
  }
  l.Check(l.top_count() == 8 && l.bottom_count() == 7, "top",
          StrCat("StageBridgeLayer takes 4 bottoms and 1 top, or 7 bottoms and 8 tops, found ", l.bottom_count(),
                 " and ", l.top_count()));
  const ValueId refined = Refined(l, Clipped(l, fields, l.bottom(1), 64), 1, l.bottom(5));
  const std::vector<ValueId> regions =
      b.Add("proposal_targets", {refined, l.bottom(3), l.RandomKey()},
            {{"all", true}, {"classes", fields.Count("num_classes", 2)}, {"stream", StreamOf(l)}});
  const std::vector<ValueId> masks = Masks(l, regions, {3, 4, 6, 5});
  const ValueId gate = b.Full(Shape{b.shape(regions[0])[0], 1}, 1);
  l.SetTop(0, WithGradient(b, regions[0], b.Add1("take_rows", {refined, regions[5]}), gate));
  l.SetTop(1, regions[1]);
  for (int i = 0; i < 3; ++i) {
    l.SetTop(2 + i, masks[static_cast<size_t>(i)]);
    l.SetTop(5 + i, regions[static_cast<size_t>(2 + i)]);
  }
}

}  // namespace

std::vector<PythonLayerDef> MncPythonLayers() {
  return {
      {.module = "pylayer.anchor_target_layer",
       .layer = "AnchorTargetLayer",
       .doc = "as rpn.anchor_target_layer; bottoms fg_inds and bg_inds are anchors set to 1 and 0 after sampling.",
       .min_bottoms = 3,
       .max_bottoms = 5,
       .min_tops = 4,
       .max_tops = 4,
       .build = BuildAnchorTarget},
      {.module = "pylayer.mask_layer",
       .layer = "MaskLayer",
       .doc = "masks [M,441] -> [M,1,21,21]; in TRAIN also gt_masks and gt_masks_info -> the class [M,1] of each mask "
              "that "
              "overlaps its true one by half, else 0.",
       .min_bottoms = 1,
       .max_bottoms = 3,
       .min_tops = 1,
       .max_tops = 2,
       .build = BuildMask},
      {.module = "pylayer.proposal_layer",
       .layer = "ProposalLayer",
       .doc = "as rpn.proposal_layer, with a gradient for the deltas (within 1 / clip_base where use_clip); the second "
              "top is "
              "the proposals' anchors [1,R].",
       .min_bottoms = 3,
       .max_bottoms = 3,
       .min_tops = 1,
       .max_tops = 2,
       .build = BuildProposal},
      {.module = "pylayer.proposal_target_layer",
       .layer = "ProposalTargetLayer",
       .doc = "as rpn.proposal_target_layer with 64 regions, three tenths of them foreground; also mask targets, their "
              "weights "
              "[64,1,21,21] and gt_masks_info [64,12], and the anchors of foreground and background.",
       .min_bottoms = 2,
       .max_bottoms = 6,
       .min_tops = 5,
       .max_tops = 10,
       .build = BuildProposalTarget},
      {.module = "pylayer.stage_bridge_layer",
       .layer = "StageBridgeLayer",
       .doc = "TEST: (rois, bbox_pred, seg_cls_prob, im_info) -> rois moved by the best class's boxes. TRAIN: those "
              "and the "
              "true boxes as regions, with labels, masks and boxes to learn.",
       .min_bottoms = 4,
       .max_bottoms = 7,
       .min_tops = 1,
       .max_tops = 8,
       .build = BuildStageBridge},
  };
}

}  // namespace moka
