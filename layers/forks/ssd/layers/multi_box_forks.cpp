// MultiBoxLoss under other names and with other confidence losses: SSD's own, which yuqj1991's Caffe calls
// MultiBoxSSDLoss; with a focal loss (jiachen0212's); with a centre loss of one feature vector a prior (BOBrown's).
//
// BOBrown's layer reads do_neg_mining, which SSD has given up, in place of mining_type: without it all priors count for
// the confidences, whatever mining_type says. Its centres belong to an inner layer that no solver sees: they stay what
// the filler made them.
#include "core/text.h"
#include "layers/forks/ssd/layers/multi_box.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildSsd(LayerBuilder& l) {
  const MultiBoxLossParameter& p = l.param().multibox_loss_param();
  CheckMultiBox(l, p);
  const MultiBoxChoice chosen = ChooseBoxes(l, p, false);
  SetMultiBoxLoss(l, chosen, {LocPart(l, p, chosen), ConfPart(l, p, chosen)});
}

// -alpha (1 - p)^gamma log p of each position's class.
MultiBoxPart FocalPart(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen) {
  const FocalLossParameter& focal = l.param().focal_loss_param();
  const double alpha = Finite(l, "focal_loss_param.alpha", focal.alpha());
  const double gamma = Finite(l, "focal_loss_param.gamma", focal.gamma());
  l.Check(gamma >= 0, "focal_loss_param.gamma", StrCat("gamma must not be negative, found ", gamma));
  const ValueId each = l.b().Add("softmax_losses", {ConfidencesOf(l, p, chosen), chosen.target},
                                 {{"axis", int64_t{2}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}})[0];
  // A loss of 0 is a position that does not count, or one without slope.
  const Term loss = Term::Of(each);
  const Term focused = Select(loss > 0, Decimal(alpha) * Pow(1 - Exp(-loss), Decimal(gamma)) * loss, 0);
  return {1, 1, SumOf(l, focused)};
}

void BuildMultiBoxFocal(LayerBuilder& l) {
  const MultiBoxLossParameter& p = l.param().multibox_loss_param();
  CheckMultiBox(l, p);
  const MultiBoxChoice chosen = ChooseBoxes(l, p, false);
  const bool is_softmax = p.conf_loss_type() == MultiBoxLossParameter::SOFTMAX;
  SetMultiBoxLoss(l, chosen, {LocPart(l, p, chosen), is_softmax ? FocalPart(l, p, chosen) : ConfPart(l, p, chosen)});
}

// Half the mean squared distance of the priors' vectors from the centres of their classes.
MultiBoxPart CenterPart(LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen) {
  const GraphBuilder& b = l.b();
  const int64_t length = l.param().multibox_center_loss_param().center_features();
  l.Check(length >= 1, "multibox_center_loss_param.center_features", "center_features must be given, at least 1");
  const Shape target = b.shape(chosen.target);
  const int64_t rows = target.Count();
  l.Check(l.shape(4).Count() == rows * length, "bottom[4]",
          StrCat("bottom \"", l.param().bottom(4), "\" must have ", length, " values for each of ", target[1],
                 " priors of ", target[0], " images, found ", l.shape(4).ToString()));
  FillerParameter filler;
  filler.set_type("xavier");
  const ValueId centers = l.AddBlob(0, {int64_t{p.num_classes()}, length}, filler, ParameterRole::kStatistic);
  const ValueId own = b.Add1("reindex", {centers, b.Reshape(chosen.target, {rows})});
  const ValueId sum = SumOf(l, "(x0-x1)*(x0-x1)", {b.Reshape(l.bottom(4), {rows, length}), own});
  const double weight = Finite(l, "multibox_loss_param.center_loss_weight", p.center_loss_weight());
  return {4, weight / static_cast<double>(2 * rows), sum};
}

void BuildCenter(LayerBuilder& l) {
  MultiBoxLossParameter p = l.param().multibox_loss_param();
  l.Check(p.conf_loss_type() == MultiBoxLossParameter::SOFTMAX, "multibox_loss_param.conf_loss_type",
          "MultiBoxCenterLoss has conf_loss_type: SOFTMAX alone");
  // If it mines, the fork takes every image's vectors from the first one.
  l.Check(!p.do_neg_mining(), "multibox_loss_param.do_neg_mining",
          "MultiBoxCenterLoss mines only by do_neg_mining, which mixes up its images; leave it out");
  l.Check(p.mining_type() != MultiBoxLossParameter::HARD_EXAMPLE, "multibox_loss_param.mining_type",
          "MultiBoxCenterLoss has no HARD_EXAMPLE");
  l.Check(!p.use_polygon(), "multibox_loss_param.use_polygon", "MultiBoxCenterLoss has boxes without polygons");
  p.clear_do_neg_mining();
  p.set_mining_type(MultiBoxLossParameter::NONE);
  CheckMultiBox(l, p);
  const MultiBoxChoice chosen = ChooseBoxes(l, p, false);
  SetMultiBoxLoss(l, chosen, {LocPart(l, p, chosen), ConfPart(l, p, chosen), CenterPart(l, p, chosen)});
}

}  // namespace

LayerDef MultiBoxSsdLossLayer() {
  return {.type = "MultiBoxSSDLoss",
          .min_bottoms = 4,
          .max_bottoms = 4,
          .auto_tops = true,
          .build = BuildSsd,
          .traits = {.is_loss = true},
          .params = {"multibox_loss_param", "loss_param"}};
}

LayerDef MultiBoxFocalLossLayer() {
  return {.type = "MultiBoxFocalLoss",
          .min_bottoms = 4,
          .max_bottoms = 4,
          .auto_tops = true,
          .build = BuildMultiBoxFocal,
          .traits = {.is_loss = true},
          .params = {"multibox_loss_param", "focal_loss_param", "loss_param"}};
}

LayerDef MultiBoxCenterLossLayer() {
  return {.type = "MultiBoxCenterLoss",
          .min_bottoms = 5,
          .max_bottoms = 5,
          .auto_tops = true,
          .build = BuildCenter,
          .traits = {.is_loss = true},
          .params = {"multibox_loss_param", "multibox_center_loss_param", "loss_param"}};
}

}  // namespace moka
