// -log softmax(x)[label] summed over the positions and normalised; probabilities are clipped at FLT_MIN, so one
// position adds at most 87.3365.
//
// The forks' additions weigh the positions or soften the targets: class_weighting with weight_by_label_freqs (SegNet)
// multiplies each loss with its label's weight and divides as without; a third bottom (Intel) holds a weight a
// position and VALID then divides by the sum of the weights that count; label_smoothing s (NVIDIA, Intel) makes the
// targets 1-s+s/C at the label and s/C elsewhere, in the loss and the gradient (Szegedy et al., arXiv 1512.00567; the
// forks soften the gradient only, and the one divides by C-1, the other leaves s/C out at the label). A second bottom
// of the first's shape holds the targets themselves, each class's part (transform_param.mixing makes such).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/loss/padding.h"

namespace moka {
namespace {

// The values that the layer divides and gives.
struct Sums {
  ValueId loss;          // scalar
  ValueId valid;         // scalar: positions that count, or their weights' sum
  ValueId probability;   // like x
  ValueId each = kNoId;  // each label's loss; kNoId: not computed
};

Attributes LabelFields(const LayerBuilder& l, int axis) {
  const LossParameter& p = l.param().loss_param();
  Attributes attributes{{"axis", int64_t{axis}}};
  SetIgnoredLabel(l, p, attributes);
  return attributes;
}

bool WeighsClasses(const LossParameter& p) { return p.weight_by_label_freqs(); }

// Each label's weight.
Term ClassWeight(const LayerBuilder& l, ValueId label, int64_t classes) {
  const LossParameter& p = l.param().loss_param();
  l.Check(p.class_weighting_size() == classes, "loss_param.class_weighting",
          StrCat("class_weighting is given ", p.class_weighting_size(), " times for ", classes, " classes"));
  Term sum = 0;
  for (int c = 0; c < p.class_weighting_size(); ++c) {
    const double weight = Finite(l, StrCat("loss_param.class_weighting[", c, "]"), p.class_weighting(c));
    const Term part = Decimal(weight) * (Term::Of(label) == c);
    sum = c == 0 ? part : sum + part;
  }
  return sum;
}

double Smoothing(const LayerBuilder& l) {
  const double s = Finite(l, "loss_param.label_smoothing", l.param().loss_param().label_smoothing());
  l.Check(s >= 0 && s < 1, "loss_param.label_smoothing", StrCat("label_smoothing must be in [0, 1), found ", s));
  return s;
}

Sums Weighted(const LayerBuilder& l, int axis) {
  const GraphBuilder& b = l.b();
  Attributes attributes = LabelFields(l, axis);
  attributes.Set("smoothing", Smoothing(l));
  const std::vector<ValueId> y = b.Add("softmax_losses", {l.bottom(0), l.bottom(1)}, attributes);
  ValueId losses = y[0];
  ValueId valid = y[1];
  const Shape label = l.shape(1);
  if (WeighsClasses(l.param().loss_param())) {
    const ValueId weight = Computed(b, ClassWeight(l, l.bottom(1), l.shape(0)[axis]));
    losses = b.Pointwise("x0*x1", {losses, weight});
  }
  if (l.bottom_count() == 3) {
    l.Check(l.shape(2).Count() == label.Count(), "bottom[2]",
            StrCat("there must be a weight for each of the ", label.Count(), " labels, found ", l.shape(2).ToString()));
    const ValueId weight = b.Add1("stop_gradient", {b.Reshape(l.bottom(2), label)});
    losses = b.Pointwise("x0*x1", {losses, weight});
    valid = b.Pointwise("x0*x1", {valid, weight});
  }
  return {b.SumAll(losses), b.SumAll(valid), y[2], losses};
}

Sums Plain(const LayerBuilder& l, int axis) {
  const std::vector<ValueId> y = l.b().Add("softmax_loss", l.bottoms(), LabelFields(l, axis));
  return {y[0], y[1], y[2], kNoId};
}

// Whether the second bottom holds each class's part. With one class the two kinds look alike: labels then.
bool HasParts(const LayerBuilder& l, int axis) { return l.shape(0)[axis] > 1 && l.shape(1) == l.shape(0); }

Sums Parts(const LayerBuilder& l, int axis) {
  const LossParameter& p = l.param().loss_param();
  const std::string parts = StrCat("bottom \"", l.param().bottom(1), "\" holds parts of classes, ");
  l.Check(!p.has_ignore_label(), "loss_param.ignore_label", parts + "which cannot be ignored");
  l.Check(!WeighsClasses(p), "loss_param.weight_by_label_freqs", parts + "which have no label's weight");
  l.Check(l.bottom_count() == 2, "bottom[2]", parts + "which take no weights");
  const GraphBuilder& b = l.b();
  const double s = Smoothing(l);
  const ValueId probability = b.Add1("softmax", {l.bottom(0)}, {{"axis", int64_t{axis}}});
  ValueId target = Constant(l, l.bottom(1));
  if (s > 0) {
    target = Computed(b, Term::Of(target) * Decimal(1 - s) + Decimal(s / static_cast<double>(l.shape(0)[axis])));
  }
  const ValueId terms = b.Pointwise("-x1*log(max(x0,1.17549435e-38))", {probability, target});
  const ValueId dx = b.Pointwise("x0*x2-x1", {probability, target, b.ReduceSum(target, {axis})});
  return {.loss = WithGradients(l, b.SumAll(terms), {{l.bottom(0), dx}}),
          .valid = kNoId,
          .probability = probability,
          .each = b.ReduceSum(terms, {axis})};
}

// Divides by the sum of the weights, whatever it is, unless the file asks for another count.
bool DividesByWeights(const LayerBuilder& l) {
  const LossParameter& p = l.param().loss_param();
  const bool is_valid =
      p.has_normalization() ? p.normalization() == LossParameter::VALID : !p.has_normalize() || p.normalize();
  return l.bottom_count() == 3 && is_valid;
}

void BuildSoftmaxWithLoss(LayerBuilder& l) {
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), l.shape(0));
  const bool has_parts = HasParts(l, axis);
  if (!has_parts) CheckLabelCount(l, axis);
  const LossParameter& p = l.param().loss_param();
  const bool is_plain = l.bottom_count() == 2 && l.top_count() < 3 && !WeighsClasses(p) && p.label_smoothing() == 0;
  const Sums sums = has_parts ? Parts(l, axis) : is_plain ? Plain(l, axis) : Weighted(l, axis);
  const Shape x = l.shape(0);
  const int64_t outer = x.Count(0, axis);
  const LossCounts counts{.batch = outer,
                          .positions = (Size(outer) * x.Count(axis + 1, x.rank())).value(),
                          .valid = p.has_ignore_label() || l.IsPadded(l.bottom(1)) ? sums.valid : kNoId};
  if (DividesByWeights(l)) {
    const ValueId total = l.MeanOverRanks(sums.valid);
    l.SetTop(0, l.b().Pointwise("select(eq(x1,0),0,x0/x1)", {sums.loss, total}));
  } else {
    l.SetTop(0, Normalized(l, sums.loss, counts, LossParameter::VALID));
  }
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, sums.probability);
  if (l.top_count() > 2) l.SetTop(2, l.b().Add1("stop_gradient", {sums.each}));
}

void NeedsOfSoftmaxLoss(const ShapeReader& reader) {
  NeedLabels(reader, reader.layer().softmax_param().axis(), Weighs::kPositions);
}

}  // namespace

LayerDef SoftmaxWithLossLayer() {
  return {.type = "SoftmaxWithLoss",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .max_tops = 3,
          .auto_tops = true,
          .build = BuildSoftmaxWithLoss,
          .traits = {.is_loss = true, .scores_type = "Softmax", .gives_scores = true, .reads_scores = true},
          .needs = NeedsOfSoftmaxLoss,
          .params = {"softmax_param", "loss_param"}};
}

}  // namespace moka
