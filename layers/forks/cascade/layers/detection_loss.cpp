// DetectionLoss (MS-CNN) and DetectionGroupLoss (Cascade R-CNN): the classes' and the boxes' loss of a detection branch
// over a sample of its positions, drawn by the op branch_targets. As in the originals the bound of the offsets has no
// part in the gradient.
#include "layers/forks/cascade/layers/fields.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

struct Branches {
  ValueId scores;
  ValueId offsets;
  ValueId labels;
  Attributes sample;
  double lambda = 1;
  bool is_smooth = true;
  // 0: none.
  double field_xyr = 0;
  double field_whr = 0;
};

// Offsets dx and dy, or dw and dh, within +-bound before their scaling; the gradient passes all the same.
ValueId Bounded(const LayerBuilder& l, const Branches& branches, ValueId x, double bound, size_t first) {
  double mean = 0;
  double std = 1;
  if (branches.sample.Has("means")) {
    const Doubles& means = branches.sample.Get<Doubles>("means");
    const Doubles& stds = branches.sample.Get<Doubles>("stds");
    mean = (means[first] + means[first + 1]) / 2;
    std = std::sqrt(stds[first] * stds[first + 1]);
  }
  const Term low = Decimal((-bound - mean) / std);
  const Term high = Decimal((bound - mean) / std);
  const ValueId change = Computed(l.b(), Min(Max(Term::Of(x), low), high) - Term::Of(x));
  return l.b().Pointwise("x0+x1", {x, Constant(l, change)});
}

void SetLossTop(LayerBuilder& l, const Branches& branches) {
  l.NoteUnequal("draws its samples among the places of a batch, which is a part of it on each rank");
  const GraphBuilder& b = l.b();
  const std::vector<ValueId> targets =
      b.Add("branch_targets", {branches.scores, branches.labels, l.RandomKey()}, branches.sample);
  const ValueId losses =
      b.Add("softmax_losses", {branches.scores, targets[0]},
            {{"axis", int64_t{1}}, {"has_ignore", true}, {"ignore_label", int64_t{-1}}, {"smoothing", 0.0}})[0];
  const ValueId classes = SumOf(l, "x0*x1", {b.Reshape(losses, b.shape(targets[1])), targets[1]});
  const Attributes halves{{"axis", int64_t{1}}, {"sizes", Ints{2, 2}}};
  const std::vector<ValueId> offsets = b.Add("slice", {branches.offsets}, halves);
  const std::vector<ValueId> wanted = b.Add("slice", {targets[2]}, halves);
  const double bounds[2] = {branches.field_xyr > 0 ? 1 / branches.field_xyr : 0,
                            branches.field_xyr > 0 ? std::log(branches.field_whr) : 0};
  const std::string error =
      branches.is_smooth ? "t0=x0-x1;x2*select(lt(abs(t0),1),0.5*t0*t0,abs(t0)-0.5)" : "t0=x0-x1;0.5*x2*t0*t0";
  ValueId parts[2];
  for (size_t i = 0; i < 2; ++i) {
    const ValueId x = branches.field_xyr > 0 ? Bounded(l, branches, offsets[i], bounds[i], 2 * i) : offsets[i];
    parts[i] = SumOf(l, error, {x, wanted[i], targets[3]});
  }
  const ValueId boxes = Computed(b, Decimal(branches.lambda) * (Term::Of(parts[0]) + Term::Of(parts[1])));
  const ValueId total = b.Pointwise("x0+x1", {classes, boxes});
  const Shape one{1, 1, 1, 1};
  l.SetTop(0, b.Add1("concat", {b.Reshape(total, one), b.Reshape(Constant(l, boxes), one)}, {{"axis", int64_t{3}}}));
  l.SetLoss(0, 1);
}

void BuildDetectionLoss(LayerBuilder& l) {
  const DetectionLossParameter& p = l.param().detection_loss_param();
  if (!p.has_cls_num() && (p.has_side() || p.has_num_class() || p.has_num_object())) return BuildSquaresLoss(l);
  l.Check(p.has_cls_num(), "detection_loss_param",
          "detection_loss_param.cls_num must be given, or for YOLO v1 side, num_class and num_object");
  const Shape x = l.shape(0);
  const int64_t classes = p.cls_num();
  l.Check(p.coord_num() == 4, "detection_loss_param.coord_num",
          StrCat("detection_loss_param.coord_num must be 4, found ", p.coord_num()));
  l.Check(classes >= 2 && x.rank() == 4 && x[1] == classes + 4, "detection_loss_param.cls_num",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,cls_num+4,H,W] with at least 2 classes, found ",
                 x.ToString(), " for cls_num ", classes));
  l.Check(!p.objectness() || classes == 2, "detection_loss_param.objectness",
          StrCat("detection_loss_param.objectness needs cls_num 2, found ", classes));
  Attributes sample{{"heights", Doubles{SideOf(l, "detection_loss_param.field_h", p.field_h())}},
                    {"widths", Doubles{SideOf(l, "detection_loss_param.field_w", p.field_w())}},
                    {"stride", SideOf(l, "detection_loss_param.downsample_rate", p.downsample_rate())},
                    {"bg_threshold", Finite(l, "detection_loss_param.bg_threshold", p.bg_threshold())},
                    {"bg_multiple", double{static_cast<double>(p.bg_multiple())}},
                    {"mining", p.sample_mode()},
                    {"objectness", p.objectness()},
                    {"overlap_weighted", p.iou_weighted()},
                    {"balanced", p.pos_neg_weighted()},
                    {"stream", static_cast<int64_t>(RandomStreamOf(l))}};
  SetOffsets(l, sample);
  SetIgnoredLabel(l, sample);
  Attributes bounds;
  SetBounds(l, "detection_loss_param", p.field_xyr(), p.field_whr(), bounds);
  const std::vector<ValueId> parts =
      l.b().Add("slice", {l.bottom(0)}, {{"axis", int64_t{1}}, {"sizes", Ints{classes, 4}}});
  SetLossTop(l, {.scores = parts[0],
                 .offsets = parts[1],
                 .labels = l.bottom(1),
                 .sample = sample,
                 .lambda = Finite(l, "detection_loss_param.lambda", p.lambda()),
                 .is_smooth = p.bb_smooth(),
                 .field_xyr = p.field_xyr(),
                 .field_whr = p.field_whr()});
}

// The text of a field that must be one of some words.
std::string Choice(const LayerBuilder& l, const std::string& field, const std::string& value,
                   const std::vector<std::string>& choices) {
  const bool is_known = std::ranges::find(choices, value) != choices.end();
  l.Check(is_known, field,
          StrCat(field, " must be one of ", Join(choices, ", "), ", found \"", Printable(value), "\""));
  return value;
}

void BuildLossOfGroup(LayerBuilder& l) {
  const std::string message = "detection_group_loss_param";
  const DetectionGroupLossParameter& p = l.param().detection_group_loss_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x[1] == p.cls_num() && x[1] >= 2, message + ".cls_num",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N*A,cls_num,H,W] with at least 2 classes, found ",
                 x.ToString(), " for cls_num ", p.cls_num()));
  l.Check(l.shape(1) == x.With(1, 4), "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be ", x.With(1, 4).ToString(), ", found ",
                 l.shape(1).ToString()));
  l.Check(!p.objectness() || p.cls_num() == 2, message + ".objectness", message + ".objectness needs cls_num 2");
  l.Check(p.batch_size() == -1 || p.batch_size() > 0, message + ".batch_size",
          StrCat(message, ".batch_size must be -1 or at least 1, found ", p.batch_size()));
  (void)Choice(l, message + ".neg_ranking_type", p.neg_ranking_type(), {"conf_loss", "conf_prob"});
  const std::string kind = Choice(l, message + ".bbox_loss_type", p.bbox_loss_type(), {"Smooth_L1", "Euclidean_L2"});
  Attributes sample{
      {"heights", SidesOf(l, message + ".field_h", p.field_h())},
      {"widths", SidesOf(l, message + ".field_w", p.field_w())},
      {"stride", SideOf(l, message + ".stride", p.stride())},
      {"bg_threshold", Finite(l, message + ".bg_threshold", p.bg_threshold())},
      {"bg_multiple", static_cast<double>(p.bg_multiple())},
      {"mining", Choice(l, message + ".neg_mining_type", p.neg_mining_type(), {"random", "bootstrap", "mixture"})},
      {"objectness", p.objectness()},
      {"balanced", p.pos_neg_weighted()},
      {"batch", int64_t{p.batch_size()}},
      {"min_negatives", int64_t{p.min_num_neg()}},
      {"pixels", true},
      {"stream", static_cast<int64_t>(RandomStreamOf(l))}};
  SetOffsets(l, sample);
  SetIgnoredLabel(l, sample);
  Attributes bounds;
  SetBounds(l, message, p.field_xyr(), p.field_whr(), bounds);
  const bool is_bounded = p.has_field_xyr() && p.has_field_whr();
  SetLossTop(l, {.scores = l.bottom(0),
                 .offsets = l.bottom(1),
                 .labels = l.bottom(2),
                 .sample = sample,
                 .lambda = Finite(l, message + ".lambda", p.lambda()),
                 .is_smooth = kind == "Smooth_L1",
                 .field_xyr = is_bounded ? p.field_xyr() : 0,
                 .field_whr = is_bounded ? p.field_whr() : 1});
}

void NeedsOfDetectionLoss(const ShapeReader& reader) {
  const DetectionLossParameter& p = reader.layer().detection_loss_param();
  if (!p.has_cls_num()) NeedSquares(reader, p.side());
}

}  // namespace

LayerDef DetectionLossLayer() {
  return {.type = "DetectionLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildDetectionLoss,
          .traits = {.is_loss = true},
          .needs = NeedsOfDetectionLoss,
          .params = {"detection_loss_param", "bbox_reg_param", "loss_param"}};
}

LayerDef DetectionGroupLossLayer() {
  return {.type = "DetectionGroupLoss",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = BuildLossOfGroup,
          .traits = {.is_loss = true},
          .params = {"detection_group_loss_param", "bbox_reg_param", "loss_param"}};
}

}  // namespace moka
