// TRAIN: each element is zero with probability ratio, else x / (1 - ratio) (Srivastava et al. 2014). The mask is a
// function of the step's key, the layer's name and the element, so the backward pass draws it again instead of keeping
// it. Forks scale in TEST instead (Fast R-CNN's scale_train), or draw in TEST too (Bayesian SegNet).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildDropout(LayerBuilder& l) {
  const DropoutParameter& p = l.param().dropout_param();
  const double ratio = Finite(l, "dropout_param.dropout_ratio", p.dropout_ratio());
  l.Check(ratio >= 0 && ratio <= 1, "dropout_param.dropout_ratio",
          StrCat("dropout_param.dropout_ratio must be in [0, 1], found ", ratio));
  if (ratio == 0) return l.SetTop(0, l.bottom(0));
  if (l.phase() == TEST && !p.sample_weights_test()) {
    return l.SetTop(0,
                    p.scale_train() ? l.bottom(0) : l.b().Pointwise(StrCat("x0*", Number(1 - ratio)), {l.bottom(0)}));
  }
  if (ratio == 1) return l.SetTop(0, l.b().Full(l.shape(0), 0));
  const std::string kept = p.scale_train() ? StrCat("x0*", Number(1 / (1 - ratio))) : "x0";
  const std::string text = StrCat("select(ge(rand(x1,", RandomStreamOf(l), "),", Number(ratio), "),", kept, ",0)");
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0), l.RandomKey()}));
}

}  // namespace

LayerDef DropoutLayer() {
  return {
      .type = "Dropout",
      .doc =
          "TRAIN: zero with probability dropout_ratio, otherwise x / (1 - dropout_ratio). TEST: x itself. With "
          "scale_train false it is x that is kept in TRAIN, and x * (1 - dropout_ratio) in TEST; with "
          "sample_weights_test TEST draws as TRAIN does.",
      .build = BuildDropout,
      .page = {.params = {"dropout_param"},
               .formula =
                   "TRAIN: `y = x * m / (1 - ratio)`, m 0 with probability ratio (dropout_ratio, default 0.5, in "
                   "[0, 1]) and 1 otherwise, drawn for each element and each run. TEST: `y = x`.\n\nscale_train: "
                   "false has `y = x * m` in TRAIN and `y = x * (1 - ratio)` in TEST. sample_weights_test: true "
                   "makes TEST do what TRAIN does. With ratio 0 y is x in both phases; with ratio 1 it is 0 in TRAIN "
                   "(the original divides by 0 there).",
               .gradient = "`dx = dy * m / (1 - ratio)` with the mask of the forward pass (`dy * m` without "
                           "scale_train); where y is x or x times a number, dy or dy times that number.",
               .source = "Dropout (Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, 2014); BVLC Caffe's "
                         "dropout_layer; scale_train is Fast R-CNN's, sample_weights_test Bayesian SegNet's. The mask "
                         "is a function of the run's key, the layer's name and the element: the backward pass draws it "
                         "again. random_seed is read and ignored.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 } } }
layer {
  name: "drop"
  type: "Dropout"
  bottom: "x"
  top: "drop"
  dropout_param { dropout_ratio: 0.4 }
})"}};
}

}  // namespace moka
