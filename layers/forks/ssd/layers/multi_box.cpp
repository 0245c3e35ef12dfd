// The layer's checks and the losses; which prior learns which object is chosen by op multibox_match, which has no
// gradient.
#include "layers/forks/ssd/layers/multi_box.h"
#include "layers/forks/ssd/layers/box_code.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

constexpr std::string_view kParam = "multibox_loss_param";

bool CountsFor(const LayerBuilder& l, int bottom) {
  return bottom >= l.param().propagate_down_size() || l.param().propagate_down(bottom);
}

// The polygons' codes are defined for one form of the boxes' alone.
void CheckPolygon(const LayerBuilder& l, const MultiBoxLossParameter& p) {
  l.Check(!p.has_use_polygon() || p.use_polygon(), "multibox_loss_param.use_polygon",
          "use_polygon: false means TextBoxes++'s rotated boxes, which are not supported; leave it out for boxes");
  l.Check(!p.use_polygon() || (p.code_type() == PriorBoxParameter::CENTER_SIZE && !p.encode_variance_in_target()),
          "multibox_loss_param.use_polygon",
          "use_polygon needs code_type: CENTER_SIZE without encode_variance_in_target");
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
          {"polygon", p.use_polygon()},
          {"objectness", number("objectness_score", p.objectness_score())}};
}

// The ground truth as rows of this many numbers. Caffe looks at no other dimension than the height: of several planes,
// such as the made-up labels of a speed test, it reads the first height * width numbers. One plane of rows of another
// width is a mistake here.
ValueId TruthOf(const LayerBuilder& l, int64_t width) {
  const Shape x = l.shape(3);
  if (x.rank() != 4 || x[0] * x[1] <= 1) return l.bottom(3);
  const int64_t numbers = (Size(x[2]) * width).value();
  if (x[2] < 1 || numbers > x.Count()) return l.bottom(3);
  const ValueId flat = l.b().Reshape(l.bottom(3), {x.Count()});
  const int64_t rest = x.Count() - numbers;
  const ValueId rows =
      rest == 0 ? flat : l.b().Add("slice", {flat}, {{"axis", int64_t{0}}, {"sizes", Ints{numbers, rest}}})[0];
  return l.b().Reshape(rows, {1, 1, x[2], width});
}

// TextBoxes++ reports at most 20 as the localisation loss; its gradient is that of the whole.
ValueId Bounded(const LayerBuilder& l, ValueId loss) {
  return l.b().Pointwise("x0+x1", {loss, Constant(l, l.b().Pointwise("min(x0,20)-x0", {loss}))});
}

}  // namespace

void CheckMultiBox(const LayerBuilder& l, const MultiBoxLossParameter& p) {
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
  // If top_k is not given, Caffe reads 0 and selects nothing at all.
  l.Check(!mines || !p.has_nms_param() || p.nms_param().nms_threshold() <= 0 || p.nms_param().has_top_k(),
          field("nms_param"), "nms_param.top_k must be given here: it bounds the examples looked at");
  CheckPolygon(l, p);
}

MultiBoxChoice ChooseBoxes(const LayerBuilder& l, const MultiBoxLossParameter& p, bool stages) {
  const auto count = static_cast<std::ptrdiff_t>(stages ? l.bottoms().size() : 4);
  std::vector<ValueId> inputs(l.bottoms().begin(), l.bottoms().begin() + count);
  inputs[3] = TruthOf(l, p.use_polygon() ? 16 : 8);
  const std::vector<ValueId> chosen = l.b().Add("multibox_match", inputs, MatchAttributes(l, p));
  return {chosen[0], chosen[1], chosen[2], chosen[3]};
}

MultiBoxPart LocPart(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen) {
  const double weight = Finite(l, "multibox_loss_param.loc_weight", p.loc_weight());
  const Shape code = l.b().shape(chosen.code);
  const ValueId loc = l.b().Reshape(l.bottom(0), code);
  const bool is_square = p.loc_loss_type() == MultiBoxLossParameter::L2;
  return {0, weight,
          SumOf(l, is_square ? "t0=x2*(x0-x1);0.5*t0*t0" : "t0=x2*(x0-x1);select(lt(abs(t0),1),0.5*t0*t0,abs(t0)-0.5)",
                {loc, chosen.code, chosen.weight})};
}

ValueId ConfidencesOf(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen) {
  const Shape targets = l.b().shape(chosen.target);
  return l.b().Reshape(l.bottom(1), {targets[0], targets[1], p.num_classes()});
}

MultiBoxPart ConfPart(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen) {
  const ValueId conf = ConfidencesOf(l, p, chosen);
  if (p.conf_loss_type() == MultiBoxLossParameter::SOFTMAX) {
    return {1, 1,
            l.b().Add("softmax_loss", {conf, chosen.target},
                      {{"axis", int64_t{2}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}})[0]};
  }
  return {1, 1,
          SumOf(l, "select(lt(x1,0),0,select(ge(x0,0),x0*(1-x1)+log(1+exp(-x0)),log(1+exp(x0))-x0*x1))",
                {conf, chosen.target})};
}

void SetMultiBoxLoss(LayerBuilder& l, const MultiBoxChoice& chosen, const std::vector<MultiBoxPart>& parts) {
  const Shape code = l.b().shape(chosen.code);
  const LossCounts counts{.batch = code[0], .positions = code[0] * code[1], .valid = chosen.matches};
  const bool is_bounded = l.param().multibox_loss_param().use_polygon() && CountsFor(l, 0);
  std::vector<Term> sums;
  for (const MultiBoxPart& part : parts) {
    if (!CountsFor(l, part.bottom) || (is_bounded && part.bottom == 0)) continue;
    const Term sum = Term::Of(part.sum);
    sums.push_back(part.weight == 1 ? sum : sum * Decimal(part.weight));
  }
  const ValueId loss = sums.empty() ? l.b().Full(Shape{}, 0)
                                    : Computed(l.b(), std::accumulate(sums.begin() + 1, sums.end(), sums.front()));
  ValueId top = Normalized(l, loss, counts, LossParameter::VALID);
  if (is_bounded) {
    const ValueId places = Computed(l.b(), Term::Of(parts[0].sum) * Decimal(parts[0].weight));
    top = l.b().Pointwise("x0+x1", {top, Bounded(l, Normalized(l, places, counts, LossParameter::VALID))});
  }
  l.SetTop(0, top);
  l.SetLoss(0, 1);
}

}  // namespace moka
