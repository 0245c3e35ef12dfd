// MultiBoxLoss (Liu et al., "SSD", 2016; first and second stage of RefineDet): matching and mining choose the targets
// (op multibox_match), the losses are sums over what they chose, both divided by the number of matches:
//   (loc_weight * sum smooth_l1(weight * (loc - code)) + sum -log softmax(conf)[class]) / max(matches, 1).
// An image without ground truth adds nothing when negatives are mined, as in Caffe. Logistic targets without mining are
// each image's own 0 and 1; Caffe shifts those of later images and starts from the background's number.
#include "layers/forks/ssd/layers/multi_box.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMultiBoxLoss(LayerBuilder& l) {
  const MultiBoxLossParameter& p = l.param().multibox_loss_param();
  CheckMultiBox(l, p);
  const MultiBoxChoice chosen = ChooseBoxes(l, p, true);
  SetMultiBoxLoss(l, chosen, {LocPart(l, p, chosen), ConfPart(l, p, chosen)});
}

}  // namespace

LayerDef MultiBoxLossLayer() {
  return {
      .type = "MultiBoxLoss",
      .doc =
          "SSD's loss of locations [N,P*4] (P*C*4 unless share_location), confidences [N,P*C], priors [1,2,P*4] and "
          "ground truth [1,1,G,8] (item_id, label, instance_id, xmin, ymin, xmax, ymax, difficult; item_id -1: no "
          "box). Each object takes its best prior, then each prior its best object by overlap_threshold; negatives are "
          "the unmatched priors with the highest confidence loss, neg_pos_ratio a match in each image (among equals "
          "the earlier prior). loc_weight * smooth L1 (or L2) plus softmax (or logistic) loss, divided as loss_param "
          "says (default: by the matches, at least 1). Bottoms 4 and 5 are the first stage of RefineDet: confidences "
          "[N,P*2] and locations [N,P*4]. use_polygon (TextBoxes++): locations [N,P*12] and ground truth [1,1,G,16], "
          "four corners after each box. Ground truth of several planes, [A,B,G,W], is read as Caffe does: G rows, the "
          "first numbers that it holds.",
      .min_bottoms = 4,
      .max_bottoms = 6,
      .auto_tops = true,
      .build = BuildMultiBoxLoss,
      .page = {
          .params = {"multibox_loss_param", "loss_param"},
          .formula =
              "`L = (loc_weight * sum f(w * (loc - code)) + sum e) / Z`, a scalar: f is smooth L1 (`d^2/2` for |d| < "
              "1, else `|d| - 1/2`) or L2 (`d^2/2`) over the matched priors' coordinates, code the object's box coded "
              "relative to the prior (code_type, divided by the variances); w is 1, the inverse variance with "
              "encode_variance_in_target, or 0 for coordinates outside the image with bp_inside. e is `-log max(p, "
              "FLT_MIN)` of the wanted class's softmax, or each class's sigmoid cross entropy, over the matched "
              "priors and the negatives chosen (mining_type NONE: all priors).\n\nMatching: the pair of prior and "
              "object with the highest overlap matches, and so on until every object is taken or overlaps nothing; "
              "with PER_PREDICTION each free prior then takes its best object if they overlap by overlap_threshold "
              "(0.5) or more. MAX_NEGATIVE: of the free priors that overlap every object by less than neg_overlap "
              "(0.5), the `floor(matches * neg_pos_ratio)` of an image with the highest e. HARD_EXAMPLE: the "
              "sample_size priors of an image with the highest e + f, of either kind; other matches are dropped.\n\nZ "
              "by loss_param: VALID (default) max(matches, 1), BATCH_SIZE N, FULL N*P, NONE 1. `propagate_down: "
              "false` for a bottom leaves its part out of L.\n\nuse_polygon: a prior's location is its box's and x1, "
              "y1, ..., x4, y4 of the corners from the upper left one clockwise, coded as `(x_k - X_k) / (w v_0)`, "
              "`(y_k - Y_k) / (h v_1)` with (X_k, Y_k) the prior's own corners, w and h its sides, v its variances; a "
              "row of ground truth ends with the corners. Boxes alone are matched, and the places' part of L is shown "
              "as 20 where it is more. It needs CENTER_SIZE.",
          .gradient = "`dloc = (loss_weight / Z) * loc_weight * w * clamp(w * (loc - code), -1, 1)`, not clamped for "
                      "L2; `dconf = (loss_weight / Z) * (p - target)` at priors that count. 0 elsewhere; nothing "
                      "flows through the matching. None for priors, ground truth and bottoms 4 and 5.",
          .source =
              "Liu et al., \"SSD: Single Shot MultiBox Detector\", arXiv 1512.02325, and its Caffe; bottoms 4 and 5 "
              "as in RefineDet (Zhang et al., arXiv 1711.06897). An image without ground truth adds nothing when "
              "negatives are mined, as in Caffe. Logistic targets without mining are each image's own 0 and 1; Caffe "
              "shifts those of later images and starts from the background's number. With encode_variance_in_target "
              "Caffe's dloc lacks the factor w. use_polygon is TextBoxes++'s (Liao, Shi, Bai, arXiv 1801.02765), "
              "whose default it is; its rotated boxes (use_polygon: false) are refused.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 8 dim: 2 dim: 2 } } }
layer { name: "loc" type: "Input" top: "loc" input_param { shape { dim: 2 dim: 16 } } }
layer { name: "conf" type: "Input" top: "conf" input_param { shape { dim: 2 dim: 12 } } }
layer { name: "truth" type: "Input" top: "truth" input_param { shape { dim: 1 dim: 1 dim: 3 dim: 8 } } }
layer {
  name: "prior"
  type: "PriorBox"
  bottom: "map"
  top: "prior"
  prior_box_param { min_size: 30 img_size: 64 }
}
layer {
  name: "loss"
  type: "MultiBoxLoss"
  bottom: "loc"
  bottom: "conf"
  bottom: "prior"
  bottom: "truth"
  top: "loss"
  # Class 2 is the background; 0 and 1 are objects.
  multibox_loss_param { num_classes: 3 background_label_id: 2 code_type: CENTER_SIZE overlap_threshold: 0.3 }
})"}};
}

}  // namespace moka
