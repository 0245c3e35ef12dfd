// y = x if x > 0, else alpha * (exp(x) - 1) (Clevert et al., arXiv 1511.07289), times NVIDIA's lambda (SELU).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildElu(LayerBuilder& l) {
  const double alpha = Finite(l, "elu_param.alpha", l.param().elu_param().alpha());
  const double lambda = Finite(l, "elu_param.lambda", l.param().elu_param().lambda());
  const std::string elu = StrCat("select(gt(x0,0),x0,", Number(alpha), "*(exp(x0)-1))");
  l.SetTop(0, l.b().Pointwise(lambda == 1 ? elu : StrCat(Number(lambda), "*", elu), {l.bottom(0)}));
}

}  // namespace

LayerDef EluLayer() {
  return {
      .type = "ELU",
      .doc =
          "lambda * (x if x > 0, else alpha * (exp(x) - 1)) of each element; both numbers are 1 unless given. The top "
          "has the bottom's shape.",
      .build = BuildElu,
      .page = {.params = {"elu_param"},
               .formula = "`y = lambda * x` where x > 0, else `y = lambda * alpha * (exp(x) - 1)`; alpha and lambda "
                          "are 1 unless given. y has x's shape.",
               .gradient = "`dx = lambda * dy` where x > 0, else `lambda * alpha * exp(x) * dy`.",
               .source =
                   "Exponential linear units (Clevert, Unterthiner, Hochreiter, arXiv 1511.07289); BVLC Caffe's "
                   "elu_layer; lambda is NVIDIA's, for self-normalizing networks (Klambauer et al., arXiv 1706.02515).",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "elu" type: "ELU" bottom: "x" top: "elu" elu_param { alpha: 0.5 } })"}};
}

}  // namespace moka
