// The part of predictions whose label is among the top_k scores.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
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

}  // namespace

LayerDef AccuracyLayer() {
  return {
      .type = "Accuracy",
      .doc =
          "The part of the predictions whose label is among the top_k best scores. Bottoms: scores with K classes "
          "along axis (default 1), and a label for each position; tops: a scalar and optionally the accuracy of each "
          "class [K]. ignore_label leaves labels out; min_is_better takes the smallest scores. In nets with a "
          "ProposalTarget "
          "layer (MS-CNN, Cascade R-CNN) labels of -1 are left out unless there is an ignore_label.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .build = BuildAccuracy,
      .page = {.params = {"accuracy_param"},
               .formula =
                   "x has K classes along axis (default 1), outer dimensions before and inner ones after it; bottom "
                   "1 has outer * inner labels, whole numbers from 0 to K - 1.\n\n`y = hits / counted`, a scalar, 0 "
                   "if no label counts. A label c is a hit if at most top_k of the K values at its position are not "
                   "below `x[c]`, x[c] among them: ties and NaNs count against it. Labels equal to ignore_label, if "
                   "that is given, do not count. min_is_better compares `-x`.\n\nTop 1, if there is one, is [K]: the "
                   "same share over the labels of each class, 0 for a class that is absent.",
               .gradient = "None: neither the scores nor the labels get one.",
               .source = "BVLC Caffe's accuracy_layer; min_is_better is that of happynear's Caffe.",
               .example = R"(layer { name: "score" type: "Input" top: "score" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "accuracy"
  type: "Accuracy"
  bottom: "score"
  bottom: "label"
  top: "accuracy"
  top: "of_class"
  accuracy_param { top_k: 2 }
})"}};
}

}  // namespace moka
