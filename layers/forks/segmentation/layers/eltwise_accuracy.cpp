// EltwiseAccuracy (DeconvNet): Accuracy over the pixels of a label image, with its own fields.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildEltwiseAccuracy(LayerBuilder& l) {
  const EltwiseAccuracyParameter& p = l.param().eltwise_accuracy_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the scores must be [N,C,..], found ", x.ToString()));
  l.Check(p.top_k() >= 1 && p.top_k() <= x[1], "eltwise_accuracy_param.top_k",
          StrCat("eltwise_accuracy_param.top_k must be from 1 to the ", x[1], " classes, found ", p.top_k()));
  CheckLabelCount(l, 1);
  const std::vector<ValueId> tops = l.b().Add("accuracy", l.bottoms(),
                                              {{"axis", int64_t{1}},
                                               {"top_k", int64_t{p.top_k()}},
                                               {"has_ignore", p.has_ignore_label()},
                                               {"ignore_label", int64_t{p.ignore_label()}}});
  l.SetTop(0, l.b().Reshape(tops[0], {1, 1, 1, 1}));
}

}  // namespace

LayerDef EltwiseAccuracyLayer() {
  return {.type = "EltwiseAccuracy",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildEltwiseAccuracy,
          .params = {"eltwise_accuracy_param"}};
}

}  // namespace moka
