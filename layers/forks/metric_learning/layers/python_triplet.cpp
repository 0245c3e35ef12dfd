// The Python layers with which VGG-Face nets learn from triplets: rows of unit norm, the choice of triplets, the loss.
// Two families: David Lu's (norm2layer, tripletselectlayer, tripletlosslayer), found in many repositories, and
// hizhangp's (l2norm_layer, tripletsample_layer, tripletloss_layer).
#include "core/text.h"
#include "layers/forks/metric_learning/layers/triplets.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/normalisation/unit_norm.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

constexpr int64_t kMaxItems = 1 << 12;  // TripletSampleLayer makes up to the square of it

ValueId Rows(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2 && x.Count() == x[0] * x[1], "bottom[0]",
          StrCat("the bottom must be rows [N,D], found ", x.ToString()));
  return l.b().Reshape(l.bottom(0), {x[0], x[1]});
}

void BuildUnit(LayerBuilder& l, const PythonFields&) { l.SetTop(0, UnitItems(l, Rows(l), 0, 0)); }

// The original's backward pass is empty: what lies below is not trained by what lies above.
void BuildUnitWithoutGradient(LayerBuilder& l, const PythonFields&) {
  l.SetTop(0, UnitItems(l, Constant(l, Rows(l)), 0, 0));
}

// Squared distances of rows, [N,1]; b may be one row.
ValueId Distances(const LayerBuilder& l, ValueId a, ValueId b) {
  return l.b().Add1("reduce_sum", {a, b}, {{"expr", std::string("(x0-x1)*(x0-x1)")}, {"axes", Ints{1}}});
}

// The batch is anchors, positives and negatives, a third each. Positives and negatives are put in the order of their
// distance from the first anchor, the farthest first.
void BuildSelect(LayerBuilder& l, const PythonFields&) {
  const GraphBuilder& b = l.b();
  const ValueId rows = Rows(l);
  const Shape x = b.shape(rows);
  const int64_t third = x[0] / 3;
  l.Check(third >= 1, "bottom[0]", StrCat("a batch of triplets has at least 3 rows, found ", x.ToString()));
  Ints sizes{third, third, third};
  if (x[0] % 3 != 0) sizes.push_back(x[0] % 3);
  const std::vector<ValueId> parts = b.Add("slice", {rows}, {{"axis", int64_t{0}}, {"sizes", sizes}});
  const ValueId anchor =
      third == 1 ? parts[0] : b.Add("slice", {parts[0]}, {{"axis", int64_t{0}}, {"sizes", Ints{1, third - 1}}})[0];
  std::vector<ValueId> chosen{parts[0]};
  std::vector<ValueId> distances;
  for (const ValueId part : {parts[1], parts[2]}) {
    const ValueId distance = Constant(l, Distances(l, part, anchor));
    const ValueId order = b.Reshape(b.Add1("argmax", {b.Reshape(distance, {1, third})},
                                           {{"has_axis", true}, {"axis", int64_t{1}}, {"top_k", third}}),
                                    {third});
    chosen.push_back(b.Add1("reindex", {part, order}));
    distances.push_back(b.Add1("reindex", {distance, order}));
  }
  // A triplet learns where its negative is farther than its positive.
  const ValueId learns = b.Pointwise("gt(x1,x0)", distances);
  for (int i = 0; i < 3; ++i) {
    const ValueId row = chosen[static_cast<size_t>(i)];
    l.SetTop(i, b.Pointwise("select(x1,x0,x2)", {row, learns, Constant(l, row)}));
  }
}

// All pairs of items of one label, each with a negative that is drawn. Static shapes: room for N (N - 1) triplets, or 1
// for a batch of one; rows that are not needed are 0 in all three tops.
void BuildSample(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const ValueId rows = Rows(l);
  const int64_t count = b.shape(rows)[0];
  l.Check(count <= kMaxItems, "bottom[0]",
          StrCat("the triplets of a batch are as many as its square: at most ", kMaxItems, " items, found ", count));
  l.Check(l.shape(1).Count() == count, "bottom[1]",
          StrCat("there must be a label for each of the ", count, " items, found ", l.shape(1).ToString()));
  const ValueId label = b.Reshape(Constant(l, l.bottom(1)), {count});
  const std::vector<ValueId> index = b.Add("sample_triplets", {Constant(l, rows), label, l.RandomKey()},
                                           {{"semi_hard", fields.Flag("semi_hard", true)}, {"stream", StreamOf(l)}});
  for (int i = 0; i < 3; ++i) {
    l.SetTop(i, b.Add1("reindex", {rows, index[static_cast<size_t>(i)]},
                       {{"has_ignore", true}, {"ignore_label", int64_t{-1}}}));
  }
}

void BuildHalvedLoss(LayerBuilder& l, const PythonFields& fields) {
  const ValueId sum = SumOf(l, "x0", {TripletHinges(l, fields.Number("margin", 1))});
  l.SetTop(0, l.b().Reshape(Computed(l.b(), Term::Of(sum) / (Size(2) * l.shape(0)[0]).value()), Shape{1}));
}

// Rows of zeros in all three bottoms are the sample layer's room, no triplets.
void BuildMeanLoss(LayerBuilder& l, const PythonFields& fields) {
  l.Check(fields.Has("margin"), "python_param.param_str", "param_str must give 'margin'");
  const GraphBuilder& b = l.b();
  const ValueId hinges = TripletHinges(l, fields.Number("margin", 0));
  const ValueId size =
      b.Add1("reduce_sum", {Constant(l, Vectors(l, 0)), Constant(l, Vectors(l, 1)), Constant(l, Vectors(l, 2))},
             {{"expr", std::string("abs(x0)+abs(x1)+abs(x2)")}, {"axes", Ints{1}}});
  const ValueId sum = SumOf(l, "select(gt(x1,0),x0,0)", {hinges, size});
  const ValueId triplets = SumOf(l, "gt(x0,0)", {size});
  l.SetTop(0, b.Reshape(OverCount(l, sum, triplets), Shape{1}));
}

PythonLayerDef Unit(const std::string& module) {
  return {.module = module,
          .layer = "L2NormLayer",
          .doc = "rows [N,D] over their norms; a row of zeros stays one.",
          .min_bottoms = 1,
          .max_bottoms = 1,
          .build = BuildUnit};
}

PythonLayerDef Sample(const std::string& module) {
  return {
      .module = module,
      .layer = "TripletSampleLayer",
      .doc =
          "anchors, positives and negatives from rows [N,D] and labels: every pair of one label, with a negative "
          "that is drawn until it is farther from the anchor than the positive ('semi_hard', default True), at most "
          "2 N times; if none is found the positive is the negative too. The tops have room for N (N - 1) "
          "triplets; the rest is 0.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .min_tops = 3,
      .max_tops = 3,
      .build = BuildSample};
}

PythonLayerDef MeanLoss(const std::string& module) {
  return {
      .module = module,
      .layer = "TripletLayer",
      .doc =
          "the mean of max(0, margin + |a-p|^2 - |a-n|^2) over the triplets ('margin' must be given); rows that are "
          "0 in all bottoms do not count; give it a loss_weight.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .build = BuildMeanLoss};
}

}  // namespace

std::vector<PythonLayerDef> TripletPythonLayers() {
  return {
      Unit("l2norm_layer"),
      Unit("triplet.l2norm_layer"),
      Sample("tripletsample_layer"),
      Sample("triplet.tripletsample_layer"),
      MeanLoss("tripletloss_layer"),
      MeanLoss("triplet.tripletloss_layer"),
      {.module = "norm2layer",
       .layer = "Norm2Layer",
       .doc = "rows [N,D] over their norms; as in the original no gradient passes.",
       .min_bottoms = 1,
       .max_bottoms = 1,
       .build = BuildUnitWithoutGradient},
      {.module = "tripletselectlayer",
       .layer = "TripletSelectLayer",
       .doc = "a batch [N,D] of anchors, positives and negatives, N/3 each (the original reads N from its "
              "configuration), as three tops; positives and negatives in the order of their distance from the first "
              "anchor, the farthest first. Triplets whose negative is not farther than their positive get no "
              "gradient. A second bottom is not read.",
       .min_bottoms = 1,
       .max_bottoms = 2,
       .min_tops = 3,
       .max_tops = 3,
       .build = BuildSelect},
      {.module = "tripletlosslayer",
       .layer = "TripletLayer",
       .doc = "the sum of max(0, margin + |a-p|^2 - |a-n|^2) over twice the batch ('margin', default 1); give it a "
              "loss_weight.",
       .min_bottoms = 3,
       .max_bottoms = 3,
       .build = BuildHalvedLoss}};
}

}  // namespace moka
