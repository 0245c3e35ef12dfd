// Contrastive and triplet losses on the distances [N,classes] of items to class centres (NormFace, Wang et al., arXiv
// 1704.06369).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// The sum of a row's elements: [N,1].
ValueId OfRows(const LayerBuilder& l, const std::string& expr, const std::vector<ValueId>& inputs) {
  return l.b().Add1("reduce_sum", inputs, {{"expr", expr}, {"axes", Ints{1}}});
}

// The mean distances to the own centre and to the others, [2], of these sums.
ValueId Means(const LayerBuilder& l, ValueId own, ValueId others, int64_t count, int64_t classes) {
  const GraphBuilder& b = l.b();
  const double negatives = static_cast<double>(count) * static_cast<double>(std::max<int64_t>(classes - 1, 1));
  const ValueId first = b.Reshape(Computed(b, Term::Of(Constant(l, own)) / count), {1});
  const ValueId second = b.Reshape(Computed(b, Term::Of(Constant(l, others)) / Decimal(negatives)), {1});
  return b.Add1("concat", {first, second}, {{"axis", int64_t{0}}});
}

// 1 at the largest element of each row, else 0.
ValueId Largest(const LayerBuilder& l, ValueId rows) {
  return l.b().Add1("top_k_mask", {Constant(l, rows)}, {{"axis", int64_t{1}}, {"k", int64_t{1}}});
}

double Weight(const LayerBuilder& l, const std::string& field, float value) {
  const double weight = Finite(l, field, value);
  l.Check(weight >= 0, field, StrCat(field, " must not be negative, found ", weight));
  return weight;
}

void BuildSiamese(LayerBuilder& l) {
  const GeneralContrastiveParameter& p = l.param().general_contrastive_loss_param();
  const std::string prefix = "general_contrastive_loss_param.";
  l.Check(!p.has_normalize_negative(), prefix + "normalize_negative", "normalize_negative is not part of Moka");
  l.Check(!p.max_positive_only(), prefix + "max_positive_only", "max_positive_only is not part of Moka");
  l.Check(!p.add_intra_mae(), prefix + "add_intra_mae", "add_intra_mae is not part of Moka");
  const LabelledRows in = RowsWithLabels(l);
  const int64_t classes = l.b().shape(in.rows)[1];
  const Term margin = Decimal(Finite(l, prefix + "negative_margin", p.negative_margin()));
  const Term near = Decimal(Finite(l, prefix + "positive_margin", p.positive_margin()));
  const Term far = Decimal(Finite(l, prefix + "positive_outlier_thresh", p.positive_outlier_thresh()));
  const std::vector<ValueId> inputs{in.rows, in.mask};
  const Term distance = Term::Of(in.rows);
  const Term is_own = Term::Of(in.mask);
  const Term of_others = (1 - is_own) * Max(margin - distance, 0);
  const ValueId own = SumOf(l, is_own * Min(Max(distance - near, 0), far), inputs);
  const Term shrinking = (1 - is_own) * (distance < margin) * Exp(-distance);
  ValueId negative = l.b().Pointwise(p.exp_negative_weight() ? shrinking : of_others, inputs);
  if (p.positive_first()) {
    const Term bound = Decimal(Finite(l, prefix + "positive_upper_bound", p.positive_upper_bound()));
    const ValueId of_own = OfRows(l, "x0*x1", {in.rows, in.mask});
    negative = Computed(l.b(), Term::Of(negative) * (Term::Of(of_own) <= bound));
  }
  if (p.max_negative_only()) negative = l.b().Pointwise("x0*x1", {negative, Largest(l, negative)});
  const double positive_weight = Weight(l, prefix + "positive_weight", p.positive_weight());
  const double negative_weight = Weight(l, prefix + "negative_weight", p.negative_weight());
  const Term loss =
      Decimal(positive_weight) * Term::Of(own) + Decimal(negative_weight) * Term::Of(SumOf(l, "x0", {negative}));
  l.SetTop(0, loss / in.count);
  if (l.top_count() > 1) l.SetTop(1, Means(l, own, SumOf(l, of_others, inputs), in.count, classes));
  l.SetLoss(0, 1);
}

void BuildTriplet(LayerBuilder& l) {
  const GeneralTripletParameter& p = l.param().general_triplet_loss_param();
  const std::string prefix = "general_triplet_loss_param.";
  const GraphBuilder& b = l.b();
  const LabelledRows in = RowsWithLabels(l);
  const int64_t classes = b.shape(in.rows)[1];
  const Term margin = Decimal(Finite(l, prefix + "margin", p.margin()));
  const Term positive_weight = Decimal(Weight(l, prefix + "positive_weight", p.positive_weight()));
  const Term negative_weight = Decimal(Weight(l, prefix + "negative_weight", p.negative_weight()));
  const ValueId rows = Constant(l, in.rows);
  const ValueId own = OfRows(l, "x0*x1", {rows, in.mask});
  const Term is_own = Term::Of(in.mask);
  const Term near = Max(Term::Of(own) + margin - Term::Of(rows), 0);
  ValueId excess = b.Pointwise((1 - is_own) * near, {rows, in.mask, own});
  if (p.hardest_only()) excess = b.Pointwise("x0*x1", {excess, Largest(l, excess)});
  const Term bound = Decimal(Finite(l, prefix + "positive_upper_bound", p.positive_upper_bound()));
  const Term own_distance = Term::Of(own);
  const ValueId is_far = Computed(b, p.positive_first() ? own_distance > bound : own_distance * 0);
  excess = b.Pointwise("x0*(1-x1)", {excess, is_far});
  const ValueId active = OfRows(l, "gt(x0,0)", {excess});
  const Term pulls = p.add_center_loss() ? 1 : Max(Term::Of(active) > 0, Term::Of(is_far));
  const Term slope = Select(is_own, positive_weight * pulls, -negative_weight * (Term::Of(excess) > 0));
  const ValueId dx = b.Pointwise(slope / in.count, {excess, in.mask, active, is_far});
  const ValueId loss = Computed(b, negative_weight * Term::Of(SumOf(l, "x0", {excess})) / in.count);
  l.SetTop(0, WithGradients(l, loss, {{in.rows, dx}}));
  if (l.top_count() > 1) {
    l.SetTop(1, Means(l, SumOf(l, "x0", {own}), SumOf(l, "(1-x1)*x0", {rows, in.mask}), in.count, classes));
  }
  l.SetLoss(0, 1);
}

LayerDef Row(std::string type, void (*build)(LayerBuilder&), std::vector<std::string> params) {
  return {.type = std::move(type),
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = build,
          .traits = {.is_loss = true},
          .params = std::move(params)};
}

}  // namespace

LayerDef GeneralContrastiveLossLayer() {
  return Row("GeneralContrastiveLoss", BuildSiamese, {"general_contrastive_loss_param"});
}

LayerDef GeneralTripletLossLayer() { return Row("GeneralTripletLoss", BuildTriplet, {"general_triplet_loss_param"}); }

}  // namespace moka
