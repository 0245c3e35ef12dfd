// SegAccuracy (DeepLab): pixel accuracy, mean class recall (of the classes that occur) and mean intersection over union
// from the confusion matrix, of which the diagonal and the sums of rows and columns are all that is needed. With reset
// false the counts go on from one pass to the next, in a blob of their own that no file has to have.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void CheckBottoms(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the scores must be [N,C,..], found ", x.ToString()));
  CheckLabelCount(l, 1);
}

// Counts [3,C]: right, labelled, predicted.
ValueId Counts(LayerBuilder& l) {
  const SegAccuracyParameter& p = l.param().seg_accuracy_param();
  const Ints ignore(p.ignore_label().begin(), p.ignore_label().end());
  const ValueId counts = l.b().Add1("class_counts", l.bottoms(), {{"axis", int64_t{1}}, {"ignore", ignore}});
  if (p.reset()) return counts;
  const ValueId before = l.AddBlob(0, l.b().shape(counts), FillerParameter(), ParameterRole::kStatistic);
  const ValueId sum = l.b().Pointwise("x0+x1", {before, counts});
  l.Assign(0, sum);
  return sum;
}

void BuildSegAccuracy(LayerBuilder& l) {
  CheckBottoms(l);
  const GraphBuilder& b = l.b();
  const ValueId counts = Counts(l);
  const int64_t classes = b.shape(counts)[1];
  const std::vector<ValueId> rows = b.Add("slice", {counts}, {{"axis", int64_t{0}}, {"sizes", Ints{1, 1, 1}}});
  const auto sum = [&](const std::string& expression, const std::vector<ValueId>& inputs) {
    return b.Reshape(b.Add1("reduce_sum", inputs, {{"expr", expression}, {"axes", Ints{0, 1}}}), {1, 1, 1, 1});
  };
  const ValueId right = sum("x0", {rows[0]});
  const ValueId labelled = sum("x0", {rows[1]});
  const ValueId accuracy = b.Pointwise("x0/max(x1,1)", {right, labelled});
  const ValueId recalls = sum("x0/max(x1,1)", {rows[0], rows[1]});
  const ValueId present = sum("gt(x0,0)", {rows[1]});
  const ValueId recall = b.Pointwise("x0/max(x1,1)", {recalls, present});
  // A class that neither occurs nor is predicted counts as 1, as in the fork.
  const ValueId overlaps = sum("select(eq(x0,x1+x2-x0),1,x0/max(x1+x2-x0,1))", rows);
  const ValueId overlap = b.Pointwise(StrCat("x0/", classes), {overlaps});
  l.SetTop(0, b.Add1("concat", {accuracy, recall, overlap}, {{"axis", int64_t{3}}}));
}

}  // namespace

LayerDef SegAccuracyLayer() {
  return {
      .type = "SegAccuracy",
      .doc =
          "From scores [N,C,H,W] and labels [N,1,H,W] the top [1,1,1,3]: pixel accuracy, mean recall of the classes "
          "that occur, mean intersection over union (1 for a class that neither occurs nor is predicted). "
          "ignore_label: labels left out; reset false adds up all passes. No gradient.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildSegAccuracy,
      .page = {
          .params = {"seg_accuracy_param"},
          .formula =
              "Per pixel the prediction is the class of the largest score, of equal ones the last. With h_k the pixels "
              "of label k predicted k, l_k those labelled k and p_k those predicted k, for C classes: `top[0] = "
              "sum(h_k) / sum(l_k)`, `top[1] = mean of h_k / l_k` over the classes with l_k > 0, `top[2] = sum(h_k / "
              "(l_k + p_k - h_k)) / C`, a term 0/0 counting as 1. The top is `[1,1,1,3]`; 0 where there is no labelled "
              "pixel (the first two).\n\nPixels whose label is an `ignore_label` count nowhere; another label that is "
              "no whole number from 0 to C - 1 ends the run with an error that names it. With `reset: false` the "
              "counts of all runs add up, in blob 0 `[3,C]` (h, l, p).",
          .gradient = "None: neither the scores nor the labels get a gradient.",
          .source = "The seg_accuracy_layer of DeepLab's Caffe (Chen et al., arXiv 1412.7062). `metric` has no effect: "
                    "all three numbers are always given. With reset false the counts are kept in a blob that no "
                    "weights' file has to have.",
          .example =
              R"(layer { name: "scores" type: "Input" top: "scores" input_param { shape { dim: 2 dim: 4 dim: 8 dim: 8 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 8 dim: 8 } } }
layer {
  name: "whole"
  type: "Threshold"
  bottom: "label"
  top: "whole"
  threshold_param { threshold: 0.5 }
}
layer {
  name: "accuracy"
  type: "SegAccuracy"
  bottom: "scores"
  bottom: "whole"
  top: "accuracy"
  seg_accuracy_param { ignore_label: 255 }
})"}};
}

}  // namespace moka
