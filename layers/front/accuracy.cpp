// The part of predictions whose label is among the top_k scores.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const AccuracyParameter& p = l.param().accuracy_param();
  const int axis = AxisOf(l, "accuracy_param.axis", p.axis(), l.shape(0));
  const int64_t classes = l.shape(0)[axis];
  l.Check(p.top_k() >= 1 && p.top_k() <= classes, "accuracy_param.top_k",
          StrCat("accuracy_param.top_k must be from 1 to the ", classes, " classes, found ", p.top_k()));
  CheckLabelCount(l, axis);
  std::vector<ValueId> inputs = l.bottoms();
  if (p.min_is_better()) inputs[0] = l.b().Pointwise("-x0", {inputs[0]});
  const std::vector<ValueId> tops = l.b().Add("accuracy", inputs,
                                              {{"axis", int64_t{axis}},
                                               {"top_k", int64_t{p.top_k()}},
                                               {"has_ignore", p.has_ignore_label()},
                                               {"ignore_label", int64_t{p.ignore_label()}}});
  for (int i = 0; i < l.top_count(); ++i) l.SetTop(i, tops[static_cast<size_t>(i)]);
}

}  // namespace

LayerDef AccuracyLayer() {
  return {.type = "Accuracy",
          .doc =
              "The part of the predictions whose label is among the top_k best scores along axis; ignore_label leaves "
              "samples out; min_is_better takes the smallest scores; an optional second top holds the accuracy of each "
              "class. No gradient.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = Build};
}

}  // namespace moka
