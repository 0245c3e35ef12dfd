// SegAccuracy (DeepLab): pixel accuracy, mean class recall (of the classes that occur) and mean intersection over union
// from the confusion matrix, of which the diagonal and the sums of rows and columns are all that is needed. With reset
// false the counts go on from one pass to the next, in a blob of their own that no file has to have.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

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
  const ValueId overlap = Computed(b, Term::Of(overlaps) / classes);
  l.SetTop(0, b.Add1("concat", {accuracy, recall, overlap}, {{"axis", int64_t{3}}}));
}

void NeedsOfSegAccuracy(const ShapeReader& reader) { NeedLabels(reader, reader.layer().softmax_param().axis()); }

}  // namespace

LayerDef SegAccuracyLayer() {
  return {.type = "SegAccuracy",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildSegAccuracy,
          .needs = NeedsOfSegAccuracy,
          .params = {"seg_accuracy_param"}};
}

}  // namespace moka
