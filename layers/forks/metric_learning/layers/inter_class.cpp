// SphereFace+'s second loss (Liu et al., "Learning towards minimum hyperspherical energy", arXiv 1805.09298): the
// classifier's weights, a row a class, are pushed apart. Its top is a distance to look at; the gradient, weighted by an
// alpha that begins at an iteration, is a rule of its own for the rows of the batch's labels. The original's margin
// layer scales the shared weights to unit rows in place before it, so where a net has one the rows count as unit here.
#include "core/text.h"
#include "layers/forks/metric_learning/layers/center_margin.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/normalisation/unit_norm.h"

namespace moka {
namespace {

constexpr const char* kInterClassPrefix = "inter_class_param.";

// 0, alpha_start_value from alpha_start_iter on, and alpha_step more from each of alpha_stepvalue on. The original
// waits for an iteration equal to each of them in turn: what lies before the first one never comes.
ValueId Alpha(LayerBuilder& l) {
  const InterClassParameter& p = l.param().inter_class_param();
  const std::string prefix = kInterClassPrefix;
  l.Check(p.alpha_start_iter() >= 0, prefix + "alpha_start_iter",
          StrCat("alpha_start_iter must not be negative, found ", p.alpha_start_iter()));
  const double start = Finite(l, prefix + "alpha_start_value", p.alpha_start_value());
  const double step = Finite(l, prefix + "alpha_step", p.alpha_step());
  const Term iterations = Term::Input(0);
  Term alpha =
      p.iteration() < p.alpha_start_iter() ? Decimal(start) * (iterations >= p.alpha_start_iter()) : 0 * iterations;
  int64_t before = p.alpha_start_iter();
  for (int i = 0; i < p.alpha_stepvalue_size(); ++i) {
    l.Check(p.alpha_stepvalue(i) > before, StrCat(prefix, "alpha_stepvalue[", i, "]"),
            StrCat("alpha_stepvalue must rise from above alpha_start_iter on: ", p.alpha_stepvalue(i), " follows ",
                   before));
    before = p.alpha_stepvalue(i);
    if (p.iteration() < p.alpha_stepvalue(0)) alpha = alpha + Decimal(step) * (iterations >= before);
  }
  FillerParameter first;
  first.set_value(static_cast<float>(p.iteration()));
  ValueId iteration = l.AddBlob(1, {}, first, ParameterRole::kStatistic);
  if (l.phase() == TRAIN) {
    iteration = l.b().Pointwise("x0+1", {iteration});
    l.Assign(1, iteration);
  }
  return l.b().Pointwise(alpha, {Constant(l, iteration)});
}

// The mean of the rows [1,D], without gradient.
ValueId MeanRow(const LayerBuilder& l, ValueId rows) {
  const int64_t count = l.b().shape(rows)[0];
  const ValueId sum = l.b().ReduceSum(Constant(l, rows), {0});
  const ValueId mean = Computed(l.b(), Term::Of(sum) / count);
  if (!l.param().inter_class_param().normalize()) return mean;
  return l.b().Pointwise("x0/sqrt(x1+1e-5)", {mean, SumOf(l, "x0*x0", {mean})});
}

// The mean over the classes of the summed squared distances from the batch's rows.
ValueId DistanceAmong(const LayerBuilder& l, ValueId rows, ValueId picked) {
  const GraphBuilder& b = l.b();
  const double classes = static_cast<double>(b.shape(rows)[0]);
  const double items = static_cast<double>(b.shape(picked)[0]);
  const auto total = [&](ValueId x) { return b.ReduceSum(Constant(l, x), {0}); };
  const Term of_rows = Decimal(items) * Term::Of(SumOf(l, "x0*x0", {Constant(l, rows)}));
  const Term of_picked = Decimal(classes) * Term::Of(SumOf(l, "x0*x0", {Constant(l, picked)}));
  const ValueId of_rows_total = total(rows);
  const ValueId products = SumOf(l, "x0*x1", {of_rows_total, total(picked)});
  return Computed(b, (of_rows + of_picked - 2 * Term::Of(products)) / Decimal(classes));
}

void BuildInterClass(LayerBuilder& l) {
  const InterClassParameter& p = l.param().inter_class_param();
  const std::string prefix = kInterClassPrefix;
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, prefix + "axis", p.axis(), x);
  const int64_t count = x.Count(0, axis);
  l.Check(p.num_output() >= 1, prefix + "num_output",
          "num_output, the number of classes, must be given and at least 1");
  l.Check(l.shape(1).Count() == count, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have ", count, " labels, found ", l.shape(1).ToString()));
  const ValueId weight = l.AddBlob(0, {int64_t{p.num_output()}, x.Count(axis, x.rank())}, p.weight_filler(),
                                   ParameterRole::kWeight, prefix + "weight_filler");
  const ValueId alpha = Alpha(l);
  const ValueId rows = l.NetHas("MarginInnerProduct") ? UnitItems(l, weight, 0, 0) : weight;
  const ValueId label = b.Reshape(Constant(l, l.bottom(1)), {count});
  const ValueId picked = b.Add1("reindex", {rows, label});
  const ValueId mean = MeanRow(l, rows);
  const Term weight_of_loss = Decimal(LossWeightOf(l));
  if (p.type() == InterClassParameter::MEAN) {
    const ValueId sum = SumOf(l, "x0*x1", {Constant(l, picked), mean});
    const Term slope = Term::Of(alpha) * Term::Of(mean) / count / weight_of_loss;
    const ValueId dw = Computed(b, slope + 0 * Term::Of(Constant(l, picked)));
    l.SetTop(0, WithGradients(l, Computed(b, 1 - Term::Of(sum) / count), {{picked, dw}}));
  } else {
    const ValueId distance = DistanceAmong(l, rows, picked);
    const Term d = Term::Of(distance);
    const Term from_mean = Term::Of(Constant(l, picked)) - Term::Of(mean);
    const ValueId dw = Computed(b, -4 * Term::Of(alpha) / (count * d * d + 1e-5) * from_mean / weight_of_loss);
    l.SetTop(0, WithGradients(l, distance, {{picked, dw}}));
  }
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, b.Reshape(alpha, {1}));
}

}  // namespace

LayerDef InterClassLayer() {
  return {.type = "InterClass",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildInterClass,
          .params = {"inter_class_param"}};
}

}  // namespace moka
