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
  const ValueId first = b.Reshape(b.Pointwise(StrCat("x0/", count), {Constant(l, own)}), {1});
  const ValueId second = b.Reshape(b.Pointwise(StrCat("x0/", Number(negatives)), {Constant(l, others)}), {1});
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
  const std::string margin = Number(Finite(l, prefix + "negative_margin", p.negative_margin()));
  const std::string near = Number(Finite(l, prefix + "positive_margin", p.positive_margin()));
  const std::string far = Number(Finite(l, prefix + "positive_outlier_thresh", p.positive_outlier_thresh()));
  const std::string own_text = StrCat("x1*min(max(x0-", near, ",0),", far, ")");
  const std::string others_text = StrCat("(1-x1)*max(", margin, "-x0,0)");
  const std::string term = p.exp_negative_weight() ? StrCat("(1-x1)*lt(x0,", margin, ")*exp(-x0)") : others_text;
  const ValueId own = SumOf(l, own_text, {in.rows, in.mask});
  ValueId negative = l.b().Pointwise(term, {in.rows, in.mask});
  if (p.positive_first()) {
    const std::string bound = Number(Finite(l, prefix + "positive_upper_bound", p.positive_upper_bound()));
    negative = l.b().Pointwise(StrCat("x0*le(x1,", bound, ")"), {negative, OfRows(l, "x0*x1", {in.rows, in.mask})});
  }
  if (p.max_negative_only()) negative = l.b().Pointwise("x0*x1", {negative, Largest(l, negative)});
  const double positive_weight = Weight(l, prefix + "positive_weight", p.positive_weight());
  const double negative_weight = Weight(l, prefix + "negative_weight", p.negative_weight());
  l.SetTop(0, l.b().Pointwise(StrCat("(", Number(positive_weight), "*x0+", Number(negative_weight), "*x1)/", in.count),
                              {own, SumOf(l, "x0", {negative})}));
  if (l.top_count() > 1) l.SetTop(1, Means(l, own, SumOf(l, others_text, {in.rows, in.mask}), in.count, classes));
  l.SetLoss(0, 1);
}

void BuildTriplet(LayerBuilder& l) {
  const GeneralTripletParameter& p = l.param().general_triplet_loss_param();
  const std::string prefix = "general_triplet_loss_param.";
  const GraphBuilder& b = l.b();
  const LabelledRows in = RowsWithLabels(l);
  const int64_t classes = b.shape(in.rows)[1];
  const std::string margin = Number(Finite(l, prefix + "margin", p.margin()));
  const std::string positive_weight = Number(Weight(l, prefix + "positive_weight", p.positive_weight()));
  const std::string negative_weight = Number(Weight(l, prefix + "negative_weight", p.negative_weight()));
  const ValueId rows = Constant(l, in.rows);
  const ValueId own = OfRows(l, "x0*x1", {rows, in.mask});
  ValueId excess = b.Pointwise(StrCat("(1-x1)*max(x2+", margin, "-x0,0)"), {rows, in.mask, own});
  if (p.hardest_only()) excess = b.Pointwise("x0*x1", {excess, Largest(l, excess)});
  const std::string bound = Number(Finite(l, prefix + "positive_upper_bound", p.positive_upper_bound()));
  const ValueId is_far = b.Pointwise(p.positive_first() ? StrCat("gt(x0,", bound, ")") : "x0*0", {own});
  excess = b.Pointwise("x0*(1-x1)", {excess, is_far});
  const ValueId active = OfRows(l, "gt(x0,0)", {excess});
  const std::string pulls = p.add_center_loss() ? "1" : "max(gt(x2,0),x3)";
  const ValueId dx =
      b.Pointwise(StrCat("select(x1,", positive_weight, "*", pulls, ",-", negative_weight, "*gt(x0,0))/", in.count),
                  {excess, in.mask, active, is_far});
  const ValueId loss = b.Pointwise(StrCat(negative_weight, "*x0/", in.count), {SumOf(l, "x0", {excess})});
  l.SetTop(0, WithGradients(l, loss, {{in.rows, dx}}));
  if (l.top_count() > 1) {
    l.SetTop(1, Means(l, SumOf(l, "x0", {own}), SumOf(l, "(1-x1)*x0", {rows, in.mask}), in.count, classes));
  }
  l.SetLoss(0, 1);
}

LayerDef Row(std::string type, std::string doc, void (*build)(LayerBuilder&), LayerPage page) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = build,
          .page = std::move(page)};
}

}  // namespace

LayerDef GeneralContrastiveLossLayer() {
  return Row(
      "GeneralContrastiveLoss",
      "Bottoms: distances [N,C] of items to the classes' centres, and labels. The own distances beyond positive_margin "
      "(at most positive_outlier_thresh) times positive_weight, and what the others lack to negative_margin times "
      "negative_weight, summed and divided by N. A second top holds the mean of both.",
      BuildSiamese,
      {.params = {"general_contrastive_loss_param"},
       .formula =
           "With c the label of item i: `y = (positive_weight * sum of min(max(x[i,c] - positive_margin, 0), "
           "positive_outlier_thresh) + negative_weight * sum over j != c of max(negative_margin - x[i,j], 0)) / N`. "
           "exp_negative_weight: the second terms are `exp(-x[i,j])` where `x[i,j] < negative_margin`. positive_first: "
           "items with `x[i,c] > positive_upper_bound` have no second terms. max_negative_only: of each item's only "
           "the "
           "largest counts.\n\nTop 1 is [2]: the first sum without its weight / N, and the sum of `max(negative_margin "
           "- "
           "x[i,j], 0)` / (N (C - 1)).",
       .gradient = "The derivative of top 0; top 1 sends none, whatever its loss weight. Labels get none.",
       .source =
           "NormFace (Wang, Xiang, Cheng, Yuille, arXiv 1704.06369); happynear's Caffe, "
           "general_contrastive_loss_layer. normalize_negative, max_positive_only and add_intra_mae are refused, "
           "negative weights too; square is read and ignored, as there. There max_negative_only compares with the "
           "own term if the label is 0.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "GeneralContrastiveLoss"
  bottom: "x"
  bottom: "label"
  top: "loss"
  top: "means"
  general_contrastive_loss_param { negative_margin: 1 }
})"});
}

LayerDef GeneralTripletLossLayer() {
  return Row(
      "GeneralTripletLoss",
      "Bottoms: distances [N,C] of items to the classes' centres, and labels. The sum over other classes of max(own "
      "distance + margin - distance, 0), times negative_weight, divided by N. A second top holds the mean distances to "
      "the own centre and to the others.",
      BuildTriplet,
      {.params = {"general_triplet_loss_param"},
       .formula =
           "With c the label of item i: `y = negative_weight * sum over j != c of max(x[i,c] + margin - x[i,j], 0) "
           "/ N`. hardest_only: of each item's terms only the largest counts. positive_first: items with `x[i,c] > "
           "positive_upper_bound` have none.\n\nTop 1 is [2]: the means of x[i,c] and of the other x[i,j].",
       .gradient = "By a rule of its own: `-negative_weight / N` for each x[i,j] whose term counts, and "
                   "`positive_weight / N` for x[i,c], of every item (add_center_loss, the default) or of those with a "
                   "term or, by positive_first, too far. Top 1 and the labels get none.",
       .source = "NormFace (Wang, Xiang, Cheng, Yuille, arXiv 1704.06369); happynear's Caffe, "
                 "general_triplet_loss_layer. Negative weights and a third bottom are refused.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "GeneralTripletLoss"
  bottom: "x"
  bottom: "label"
  top: "loss"
  general_triplet_loss_param { margin: 0.8 hardest_only: true }
})"});
}

}  // namespace moka
