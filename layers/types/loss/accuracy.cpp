// The part of predictions whose label is among the top_k scores.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/accuracy_counts.h"
#include "layers/types/loss/padding.h"

namespace moka {
namespace {

// A share of this rank's labels, so that the mean over ranks is the share of all: each counts by how many it is of.
ValueId ShareOfAll(const LayerBuilder& l, ValueId share, ValueId count, std::string_view use) {
  return l.b().Pointwise("select(gt(x2,0),x0*x1/max(x2,1e-20),0)", {share, count, l.MeanOverRanks(count, use)});
}

void WeighByRanks(const LayerBuilder& l, const Attributes& attributes, std::vector<ValueId>& tops) {
  const GraphBuilder& b = l.b();
  const ValueId label = b.Add1("stop_gradient", {l.bottom(1)});
  if (attributes.Bool("has_ignore")) {
    tops[0] = ShareOfAll(l, tops[0], CountedLabels(b, label, attributes), "labels");
  }
  if (l.top_count() < 2) return;
  tops[1] = ShareOfAll(l, tops[1], CountedLabelsOfClasses(b, label, l.shape(0), attributes), "of_class");
}

void BuildAccuracy(LayerBuilder& l) {
  const AccuracyParameter& p = l.param().accuracy_param();
  const int axis = AxisOf(l, "accuracy_param.axis", p.axis(), l.shape(0));
  const int64_t classes = l.shape(0)[axis];
  l.Check(p.top_k() >= 1 && p.top_k() <= classes, "accuracy_param.top_k",
          StrCat("accuracy_param.top_k must be from 1 to the ", classes, " classes, found ", p.top_k()));
  CheckLabelCount(l, axis);
  std::vector<ValueId> inputs = l.bottoms();
  if (p.min_is_better()) inputs[0] = l.b().Pointwise("-x0", {inputs[0]});
  Attributes attributes{{"axis", int64_t{axis}}, {"top_k", int64_t{p.top_k()}}};
  SetIgnoredLabel(l, p, attributes);
  std::vector<ValueId> tops = l.b().Add("accuracy", inputs, attributes);
  if (l.ranks() > 1) WeighByRanks(l, attributes, tops);
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

void NeedsOfAccuracy(const ShapeReader& reader) { NeedLabels(reader, reader.layer().accuracy_param().axis()); }

}  // namespace

LayerDef AccuracyLayer() {
  return {.type = "Accuracy",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = BuildAccuracy,
          .traits = {.is_accuracy = true, .reads_scores = true},
          .needs = NeedsOfAccuracy,
          .params = {"accuracy_param"}};
}

}  // namespace moka
