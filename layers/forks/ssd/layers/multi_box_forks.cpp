// MultiBoxLoss under other names and with other confidence losses: SSD's own, which yuqj1991's Caffe calls
// MultiBoxSSDLoss; with a focal loss (jiachen0212's); with a center loss of one feature vector a prior (BOBrown's).
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
  const std::string rule = StrCat("select(gt(x0,0),", Number(alpha), "*pow(1-exp(-x0),", Number(gamma), ")*x0,0)");
  return {1, 1, SumOf(l, rule, {each})};
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
  // With mining the fork takes every image's vectors from the first one.
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

// The inputs of the examples.
constexpr const char* kInputs =
    R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 8 dim: 2 dim: 2 } } }
layer { name: "loc" type: "Input" top: "loc" input_param { shape { dim: 2 dim: 16 } } }
layer { name: "conf" type: "Input" top: "conf" input_param { shape { dim: 2 dim: 12 } } }
layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 1 dim: 1 dim: 3 dim: 8 } } }
layer { name: "prior" type: "PriorBox" bottom: "map" top: "prior" prior_box_param { min_size: 30 img_size: 64 } }
)";

}  // namespace

LayerDef MultiBoxSsdLossLayer() {
  return {
      .type = "MultiBoxSSDLoss",
      .doc =
          "MultiBoxLoss under another name: bottoms locations [N,P*4], confidences [N,P*C], priors [1,2,P*4] and "
          "ground truth [1,1,G,8], fields in multibox_loss_param; the top is the scalar loss.",
      .min_bottoms = 4,
      .max_bottoms = 4,
      .auto_tops = true,
      .build = BuildSsd,
      .page = {.params = {"multibox_loss_param", "loss_param"},
               .formula = "As MultiBoxLoss with four bottoms.",
               .gradient = "As MultiBoxLoss: for locations and confidences; none for priors and ground truth.",
               .source = "yuqj1991's Caffe, which has renamed SSD's MultiBoxLoss. Its fields for tiny faces and for "
                         "receptive fields and its FOCALSOFTMAX are not there.",
               .example = std::string(kInputs) + R"(layer {
  name: "loss"
  type: "MultiBoxSSDLoss"
  bottom: "loc"
  bottom: "conf"
  bottom: "prior"
  bottom: "truth"
  top: "loss"
  multibox_loss_param { num_classes: 3 background_label_id: 2 code_type: CENTER_SIZE }
})"}};
}

LayerDef MultiBoxFocalLossLayer() {
  return {
      .type = "MultiBoxFocalLoss",
      .doc =
          "MultiBoxLoss with a focal loss of the confidences: `-alpha (1 - p)^gamma log p` of the wanted class's "
          "softmax (focal_loss_param alpha 0.25, gamma 2) over the priors that count; everything else, and "
          "conf_loss_type LOGISTIC, is MultiBoxLoss's. It is meant for mining_type: NONE.",
      .min_bottoms = 4,
      .max_bottoms = 4,
      .auto_tops = true,
      .build = BuildMultiBoxFocal,
      .page = {
          .params = {"multibox_loss_param", "focal_loss_param", "loss_param"},
          .formula =
              "`L = (loc_weight * sum f(loc - code) + sum -alpha (1 - p)^gamma log max(p, FLT_MIN)) / Z` with f, the "
              "choice of priors and Z as MultiBoxLoss has them; p is the softmax of the wanted class, the "
              "background's for a prior that matches nothing.",
          .gradient = "`dloc` as MultiBoxLoss. For the wanted class's confidence `(loss_weight / Z) * alpha * (1 - "
                      "p)^gamma * (gamma p log p + p - 1)`, for another's of softmax q `(loss_weight / Z) * alpha * q "
                      "* ((1 - p)^gamma - gamma p (1 - p)^(gamma - 1) log p)`. None for priors and ground truth.",
          .source = "jiachen0212's ssd-focal_loss_caffe, after Lin et al., \"Focal Loss for Dense Object Detection\", "
                    "arXiv 1708.02002, in SSD's Caffe (Liu et al., arXiv 1512.02325).",
          .example = std::string(kInputs) + R"(layer {
  name: "loss"
  type: "MultiBoxFocalLoss"
  bottom: "loc"
  bottom: "conf"
  bottom: "prior"
  bottom: "truth"
  top: "loss"
  focal_loss_param { alpha: 0.25 gamma: 2 }
  multibox_loss_param { num_classes: 3 background_label_id: 2 code_type: CENTER_SIZE mining_type: NONE }
})"}};
}

LayerDef MultiBoxCenterLossLayer() {
  return {
      .type = "MultiBoxCenterLoss",
      .doc =
          "MultiBoxLoss with a fifth bottom [N,P*D] of one vector a prior (multibox_center_loss_param.center_features "
          "D): all priors count for the confidences, and center_loss_weight times half the mean squared distance of "
          "the vectors from the centres of their classes is added. Blob 0 is the centres [C,D], which are never "
          "trained.",
      .min_bottoms = 5,
      .max_bottoms = 5,
      .auto_tops = true,
      .build = BuildCenter,
      .page = {
          .params = {"multibox_loss_param", "multibox_center_loss_param", "loss_param"},
          .formula =
              "`L = (loc_weight * sum f(loc - code) + sum e + center_loss_weight * sum |v - c[t]|^2 / (2 N P)) / Z`: "
              "f, e, the matching and Z are MultiBoxLoss's with mining_type: NONE, whatever mining_type is; v is a "
              "prior's vector, t its class (the background's if it matches nothing), c blob 0, filled by xavier. "
              "`propagate_down: false` for a bottom leaves its part out.",
          .gradient = "`dloc` and `dconf` as MultiBoxLoss; `dv = (loss_weight / Z) * center_loss_weight * (v - c[t]) "
                      "/ (N P)`. None for priors, ground truth and the centres.",
          .source = "BOBrown's SSD-Centerloss: SSD's Caffe (Liu et al., arXiv 1512.02325) with the loss of Wen et "
                    "al., ECCV 2016. There the centres belong to an inner layer, so that no solver moves them and no "
                    "file holds them: here they are a blob that stays as it was filled. It reads do_neg_mining in "
                    "place of mining_type; do_neg_mining: true, by which it takes all images' vectors from the first, "
                    "is refused, as are HARD_EXAMPLE and LOGISTIC, which it cannot run.",
          .example = std::string(kInputs) +
                     R"(layer { name: "v" type: "Input" top: "v" input_param { shape { dim: 2 dim: 12 } } }
layer {
  name: "loss"
  type: "MultiBoxCenterLoss"
  bottom: "loc"
  bottom: "conf"
  bottom: "prior"
  bottom: "truth"
  bottom: "v"
  top: "loss"
  multibox_loss_param { num_classes: 3 background_label_id: 2 code_type: CENTER_SIZE center_loss_weight: 0.1 }
  multibox_center_loss_param { center_features: 3 }
})"}};
}

}  // namespace moka
