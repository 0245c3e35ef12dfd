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
  std::string text =
      p.iteration() < p.alpha_start_iter() ? StrCat(Number(start), "*ge(x0,", p.alpha_start_iter(), ")") : "0*x0";
  int64_t before = p.alpha_start_iter();
  for (int i = 0; i < p.alpha_stepvalue_size(); ++i) {
    l.Check(p.alpha_stepvalue(i) > before, StrCat(prefix, "alpha_stepvalue[", i, "]"),
            StrCat("alpha_stepvalue must rise from above alpha_start_iter on: ", p.alpha_stepvalue(i), " follows ",
                   before));
    before = p.alpha_stepvalue(i);
    if (p.iteration() < p.alpha_stepvalue(0)) text += StrCat("+", Number(step), "*ge(x0,", before, ")");
  }
  FillerParameter first;
  first.set_value(static_cast<float>(p.iteration()));
  ValueId iteration = l.AddBlob(1, {}, first, ParameterRole::kStatistic);
  if (l.phase() == TRAIN) {
    iteration = l.b().Pointwise("x0+1", {iteration});
    l.Assign(1, iteration);
  }
  return l.b().Pointwise(text, {Constant(l, iteration)});
}

// The mean of the rows [1,D], without gradient.
ValueId MeanRow(const LayerBuilder& l, ValueId rows) {
  const int64_t count = l.b().shape(rows)[0];
  const ValueId sum = l.b().Add1("reduce_sum", {Constant(l, rows)}, {{"expr", std::string("x0")}, {"axes", Ints{0}}});
  const ValueId mean = l.b().Pointwise(StrCat("x0/", count), {sum});
  if (!l.param().inter_class_param().normalize()) return mean;
  return l.b().Pointwise("x0/sqrt(x1+1e-5)", {mean, SumOf(l, "x0*x0", {mean})});
}

// The mean over the classes of the summed squared distances from the batch's rows.
ValueId DistanceAmong(const LayerBuilder& l, ValueId rows, ValueId picked) {
  const GraphBuilder& b = l.b();
  const double classes = static_cast<double>(b.shape(rows)[0]);
  const double items = static_cast<double>(b.shape(picked)[0]);
  const auto total = [&](ValueId x) {
    return b.Add1("reduce_sum", {Constant(l, x)}, {{"expr", std::string("x0")}, {"axes", Ints{0}}});
  };
  return b.Pointwise(StrCat("(", Number(items), "*x0+", Number(classes), "*x1-2*x2)/", Number(classes)),
                     {SumOf(l, "x0*x0", {Constant(l, rows)}), SumOf(l, "x0*x0", {Constant(l, picked)}),
                      SumOf(l, "x0*x1", {total(rows), total(picked)})});
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
  const std::string scale = StrCat("/", Number(LossWeightOf(l)));
  if (p.type() == InterClassParameter::MEAN) {
    const ValueId sum = SumOf(l, "x0*x1", {Constant(l, picked), mean});
    const ValueId dw = b.Pointwise(StrCat("x0*x1/", count, scale, "+0*x2"), {alpha, mean, Constant(l, picked)});
    l.SetTop(0, WithGradients(l, b.Pointwise(StrCat("1-x0/", count), {sum}), {{picked, dw}}));
  } else {
    const ValueId distance = DistanceAmong(l, rows, picked);
    const ValueId dw = b.Pointwise(StrCat("-4*x0/(", count, "*x1*x1+1e-5)*(x2-x3)", scale),
                                   {alpha, distance, Constant(l, picked), mean});
    l.SetTop(0, WithGradients(l, distance, {{picked, dw}}));
  }
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, b.Reshape(alpha, {1}));
}

}  // namespace

LayerDef InterClassLayer() {
  return {
      .type = "InterClass",
      .doc =
          "SphereFace+'s push between classes. Bottoms: features, of which only the shape counts, and labels. Blob 0 "
          "[num_output, D] is meant to be shared with the classifier's weights; the rows of the batch's labels are "
          "moved "
          "away from the mean of all rows (type MEAN) or from the others (AMONG) with the weight alpha: 0, "
          "alpha_start_value from pass alpha_start_iter on, alpha_step more from each of alpha_stepvalue on. Blob 1 "
          "counts the passes, from iteration on. An optional second top is alpha.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildInterClass,
      .page = {
          .params = {"inter_class_param"},
          .formula =
              "With w the rows of blob 0, scaled to unit length where the net has a MarginInnerProduct layer, N of "
              "them, "
              "`m = mean of w`, divided by `sqrt(|m|^2 + 1e-5)` unless normalize is false, and M items: MEAN: `y = 1 - "
              "sum of m . w[label_i] / M`; AMONG (the default): `y = sum over k and i of |w_k - w[label_i]|^2 / N`. y "
              "is "
              "a scalar with loss weight 1 unless given. Top 1 is alpha `[1]`.",
          .gradient =
              "A rule of its own, whatever the loss weight v: to w[label_i] of each item goes `dy / v * alpha m / "
              "M` (MEAN) or `-dy / v * 4 alpha (w[label_i] - m) / (M y^2 + 1e-5)` (AMONG). The features get "
              "none.",
          .source =
              "Learning towards minimum hyperspherical energy (Liu et al., arXiv 1805.09298); SphereFace+'s Caffe, "
              "inter_class_layer on the CPU (on the GPU y is computed in every tenth pass only). There the shared "
              "weights are scaled in place by the margin layer before.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "apart"
  type: "InterClass"
  bottom: "x"
  bottom: "label"
  top: "apart"
  inter_class_param {
    num_output: 5 type: AMONG weight_filler { type: "xavier" } alpha_start_iter: 1 alpha_start_value: 10
  }
})"}};
}

}  // namespace moka
