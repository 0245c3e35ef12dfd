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
  return {
      .type = "EltwiseAccuracy",
      .doc =
          "The part of the pixels whose label is among the top_k best scores. Bottoms: scores [N,C,..] and a label for "
          "each pixel; top [1,1,1,1]. ignore_label leaves labels out.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildEltwiseAccuracy,
      .page = {
          .params = {"eltwise_accuracy_param"},
          .formula = "`y = hits / counted`, `[1,1,1,1]`, 0 if no label counts. A label c is a hit if at most top_k of "
                     "the C scores of its pixel are not below `x[c]`, x[c] among them. Labels equal to ignore_label, "
                     "if that is given, do not count.",
          .gradient = "None: neither the scores nor the labels get one.",
          .source = "The eltwise_accuracy_layer of DeconvNet's Caffe (Noh, Hong, Han, arXiv 1505.04366). There equal "
                    "scores are ordered by class; here ties count against the label, as in Accuracy.",
          .example =
              R"(layer { name: "score" type: "Input" top: "score" input_param { shape { dim: 2 dim: 4 dim: 3 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 3 dim: 3 } } }
layer {
  name: "accuracy"
  type: "EltwiseAccuracy"
  bottom: "score"
  bottom: "label"
  top: "accuracy"
  eltwise_accuracy_param { ignore_label: 255 }
})"}};
}

}  // namespace moka
