// MultiBoxLoss (Liu et al., "SSD", 2016; first and second stage of RefineDet): matching and mining choose the targets
// (op multibox_match), the losses are sums over what they chose, both divided by the number of matches:
//   (loc_weight * sum smooth_l1(weight * (loc - code)) + sum -log softmax(conf)[class]) / max(matches, 1).
// An image without ground truth adds nothing when negatives are mined, as in Caffe. Logistic targets without mining are
// each image's own 0 and 1; Caffe shifts those of later images and starts from the background's number.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/loss_normalizer.h"
#include "layers/front/ssd/layers.h"

namespace moka {
namespace {

constexpr std::string_view kParam = "multibox_loss_param";

void CheckFields(const LayerBuilder& l, const MultiBoxLossParameter& p) {
  const auto field = [](std::string_view name) { return StrCat(kParam, ".", name); };
  l.Check(p.num_classes() >= 1, field("num_classes"), "num_classes must be given, at least 1");
  l.Check(p.background_label_id() < p.num_classes(), field("background_label_id"),
          StrCat("background_label_id ", p.background_label_id(), " must be one of the ", p.num_classes(), " classes"));
  const bool mines = p.mining_type() != MultiBoxLossParameter::NONE;
  l.Check(!p.has_do_neg_mining() || p.do_neg_mining() == mines, field("do_neg_mining"),
          StrCat("do_neg_mining is ", p.do_neg_mining(), " but mining_type is ",
                 MultiBoxLossParameter::MiningType_Name(p.mining_type()), "; drop do_neg_mining"));
  l.Check(!mines || p.share_location(), field("share_location"),
          "negatives are mined only with share_location; set mining_type: NONE");
  l.Check(!p.map_object_to_agnostic() || (p.num_classes() == 2 && p.background_label_id() == 0),
          field("map_object_to_agnostic"), "map_object_to_agnostic needs num_classes 2 and background_label_id 0");
  l.Check(p.mining_type() != MultiBoxLossParameter::HARD_EXAMPLE || p.sample_size() > 0, field("sample_size"),
          StrCat("sample_size must be above 0, found ", p.sample_size()));
  // Without it Caffe reads 0 and selects nothing at all.
  l.Check(!mines || !p.has_nms_param() || p.nms_param().nms_threshold() <= 0 || p.nms_param().has_top_k(),
          field("nms_param"), "nms_param.top_k must be given here: it bounds the examples looked at");
}

Attributes MatchAttributes(const LayerBuilder& l, const MultiBoxLossParameter& p) {
  const auto number = [&](std::string_view name, float value) { return Finite(l, StrCat(kParam, ".", name), value); };
  const auto mining = [&]() -> std::string {
    if (p.mining_type() == MultiBoxLossParameter::NONE) return "none";
    return p.mining_type() == MultiBoxLossParameter::MAX_NEGATIVE ? "max_negative" : "hard_example";
  };
  const double nms_threshold =
      p.has_nms_param() ? number("nms_param.nms_threshold", p.nms_param().nms_threshold()) : 0.0;
  const auto word = [](bool is_first, const char* first, const char* second) {
    return std::string(is_first ? first : second);
  };
  return {{"classes", int64_t{p.num_classes()}},
          {"share_location", p.share_location()},
          {"background", int64_t{p.background_label_id()}},
          {"code", BoxCodeWord(p.code_type())},
          {"variance_in_target", p.encode_variance_in_target()},
          {"match", word(p.match_type() == MultiBoxLossParameter::BIPARTITE, "bipartite", "per_prediction")},
          {"overlap_threshold", number("overlap_threshold", p.overlap_threshold())},
          {"use_prior", p.use_prior_for_matching()},
          {"use_difficult", p.use_difficult_gt()},
          {"ignore_crossing", p.ignore_cross_boundary_bbox()},
          {"agnostic", p.map_object_to_agnostic()},
          {"inside_only", p.bp_inside()},
          {"loc_loss", word(p.loc_loss_type() == MultiBoxLossParameter::L2, "l2", "smooth_l1")},
          {"conf_loss", word(p.conf_loss_type() == MultiBoxLossParameter::LOGISTIC, "logistic", "softmax")},
          {"mining", mining()},
          {"neg_pos_ratio", number("neg_pos_ratio", p.neg_pos_ratio())},
          {"neg_overlap", number("neg_overlap", p.neg_overlap())},
          {"sample_size", int64_t{p.sample_size()}},
          {"nms_threshold", nms_threshold},
          {"nms_top_k", int64_t{p.nms_param().has_top_k() ? p.nms_param().top_k() : -1}},
          {"nms_on_priors", p.use_prior_for_nms()},
          {"objectness", number("objectness_score", p.objectness_score())}};
}

// The sum of an expression over all elements of its inputs, a scalar.
ValueId Sum(const GraphBuilder& b, const std::vector<ValueId>& inputs, const std::string& expression) {
  Ints axes;
  for (int i = 0; i < b.shape(inputs[0]).rank(); ++i) axes.push_back(i);
  return b.Reshape(b.Add1("reduce_sum", inputs, {{"expr", expression}, {"axes", axes}}), Shape{});
}

ValueId LocLoss(const LayerBuilder& l, const MultiBoxLossParameter& p, ValueId code, ValueId weight) {
  const ValueId loc = l.b().Reshape(l.bottom(0), l.b().shape(code));
  const bool is_square = p.loc_loss_type() == MultiBoxLossParameter::L2;
  return Sum(l.b(), {loc, code, weight},
             is_square ? "t0=x2*(x0-x1);0.5*t0*t0" : "t0=x2*(x0-x1);select(lt(abs(t0),1),0.5*t0*t0,abs(t0)-0.5)");
}

ValueId ConfLoss(const LayerBuilder& l, const MultiBoxLossParameter& p, ValueId target) {
  const GraphBuilder& b = l.b();
  const Shape targets = b.shape(target);
  const ValueId conf = b.Reshape(l.bottom(1), {targets[0], targets[1], p.num_classes()});
  if (p.conf_loss_type() == MultiBoxLossParameter::SOFTMAX) {
    return b.Add("softmax_loss", {conf, target},
                 {{"axis", int64_t{2}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}})[0];
  }
  return Sum(b, {conf, target}, "select(lt(x1,0),0,select(ge(x0,0),x0*(1-x1)+log(1+exp(-x0)),log(1+exp(x0))-x0*x1))");
}

void Build(LayerBuilder& l) {
  const MultiBoxLossParameter& p = l.param().multibox_loss_param();
  CheckFields(l, p);
  const std::vector<ValueId> chosen = l.b().Add("multibox_match", l.bottoms(), MatchAttributes(l, p));
  const auto counts_for = [&](int bottom) {
    return bottom >= l.param().propagate_down_size() || l.param().propagate_down(bottom);
  };
  std::vector<ValueId> parts;
  std::string sum;
  if (counts_for(0)) {
    parts.push_back(LocLoss(l, p, chosen[0], chosen[1]));
    sum = StrCat("x0*", Number(Finite(l, "multibox_loss_param.loc_weight", p.loc_weight())));
  }
  if (counts_for(1)) {
    sum += StrCat(sum.empty() ? "x" : "+x", parts.size());
    parts.push_back(ConfLoss(l, p, chosen[2]));
  }
  const ValueId loss = parts.empty() ? l.b().Full(Shape{}, 0) : l.b().Pointwise(sum, parts);
  const Shape code = l.b().shape(chosen[0]);
  const LossCounts counts{.batch = code[0], .positions = code[0] * code[1], .valid = chosen[3]};
  l.SetTop(0, Normalized(l, loss, counts, LossParameter::VALID));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef MultiBoxLossLayer() {
  return {
      .type = "MultiBoxLoss",
      .doc =
          "SSD's loss of locations [N,P*4] (P*C*4 unless share_location), confidences [N,P*C], priors "
          "[1,2,P*4] and ground truth [1,1,G,8] (item_id, label, instance_id, xmin, ymin, xmax, ymax, "
          "difficult; item_id -1: no box). Each object takes its best prior, then each prior its best "
          "object by overlap_threshold; negatives are the unmatched priors with the highest confidence "
          "loss, neg_pos_ratio a match in each image (among equals the earlier prior). loc_weight * "
          "smooth L1 (or L2) plus softmax (or logistic) loss, divided as loss_param says (default: by "
          "the matches, at least 1). Bottoms 4 and 5 are the first stage of RefineDet: confidences "
          "[N,P*2] and locations [N,P*4].",
      .min_bottoms = 4,
      .max_bottoms = 6,
      .auto_tops = true,
      .build = Build,
      .page = {
          .params = {"multibox_loss_param", "loss_param"},
          .formula = "`L = (loc_weight * sum f(w * (loc - code)) + sum e) / Z`, a scalar: f is smooth L1 (`d^2/2` "
                     "for |d| < 1, else `|d| - 1/2`) or L2 (`d^2/2`) over the matched priors' coordinates, code "
                     "the object's box coded relative to the prior (code_type, divided by the variances); w is 1, "
                     "the inverse variance with encode_variance_in_target, or 0 for coordinates outside the image "
                     "with bp_inside. e is `-log max(p, FLT_MIN)` of the wanted class's softmax, or each class's "
                     "sigmoid cross entropy, over the matched priors and the negatives chosen (mining_type NONE: "
                     "all priors).\n\nMatching: the pair of prior and object with the highest overlap matches, "
                     "and so on until every object is taken or overlaps nothing; with PER_PREDICTION each free "
                     "prior then takes its best object if they overlap by overlap_threshold (0.5) or more. "
                     "MAX_NEGATIVE: of the free priors that overlap every object by less than neg_overlap (0.5), "
                     "the `floor(matches * neg_pos_ratio)` of an image with the highest e. HARD_EXAMPLE: the "
                     "sample_size priors of an image with the highest e + f, of either kind; other matches are "
                     "dropped.\n\nZ by loss_param: VALID (default) max(matches, 1), BATCH_SIZE N, FULL N*P, NONE "
                     "1. `propagate_down: false` for a bottom leaves its part out of L.",
          .gradient = "`dloc = (loss_weight / Z) * loc_weight * w * clamp(w * (loc - code), -1, 1)`, not clamped "
                      "for L2; `dconf = (loss_weight / Z) * (p - target)` at priors that count. 0 elsewhere; "
                      "nothing flows through the matching. None for priors, ground truth and bottoms 4 and 5.",
          .source = "Liu et al., \"SSD: Single Shot MultiBox Detector\", arXiv 1512.02325, and its Caffe; "
                    "bottoms 4 and 5 as in RefineDet (Zhang et al., arXiv 1711.06897). An image without ground "
                    "truth adds nothing when negatives are mined, as in Caffe. Logistic targets without mining "
                    "are each image's own 0 and 1; Caffe shifts those of later images and starts from the "
                    "background's number. With encode_variance_in_target Caffe's dloc lacks the factor w.",
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
