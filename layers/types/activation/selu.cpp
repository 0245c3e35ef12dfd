// Self-normalising networks (Klambauer et al., arXiv 1706.02515): the activation and its dropout, which sets values to
// the activation's limit at -infinity and keeps mean and variance by an affine map.
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildSelu(LayerBuilder& l) {
  const double alpha = Finite(l, "selu_param.alpha", l.param().selu_param().alpha());
  const double lambda = Finite(l, "selu_param.lambda", l.param().selu_param().lambda());
  l.SetTop(0, l.b().Pointwise(StrCat(Number(lambda), "*select(gt(x0,0),x0,", Number(alpha), "*(exp(x0)-1))"),
                              {l.bottom(0)}));
}

void BuildDropout(LayerBuilder& l) {
  const SeLUDropoutParameter& p = l.param().selu_dropout_param();
  const double ratio = Finite(l, "selu_dropout_param.dropout_ratio", p.dropout_ratio());
  const double limit = Finite(l, "selu_dropout_param.alpha", p.alpha());
  l.Check(ratio >= 0 && ratio < 1, "selu_dropout_param.dropout_ratio",
          StrCat("selu_dropout_param.dropout_ratio must be in [0, 1), found ", ratio));
  if (l.phase() == TEST || ratio == 0) return l.SetTop(0, l.bottom(0));
  const double kept = 1 - ratio;
  const double a = 1 / std::sqrt(kept * (1 + limit * limit * ratio));
  const double b = -a * ratio * limit;
  const std::string text = StrCat(Number(a), "*select(ge(rand(x1,", RandomStreamOf(l), "),", Number(ratio), "),x0,",
                                  Number(limit), ")+", Number(b));
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0), l.RandomKey()}));
}

}  // namespace

LayerDef SeluLayer() {
  return {.type = "SeLu",
          .doc =
              "lambda * (x if x > 0, else alpha * (exp(x) - 1)) of each element, with the numbers of self-normalising "
              "networks unless given. The top has the bottom's shape.",
          .build = BuildSelu,
          .page = {.params = {"selu_param"},
                   .formula = "`y = lambda * x` where x > 0, else `y = lambda * alpha * (exp(x) - 1)`; lambda is "
                              "1.050700987 and alpha 1.67326324 unless given.",
                   .gradient = "`dx = lambda * dy` where x > 0, else `lambda * alpha * exp(x) * dy`.",
                   .source = "Self-normalizing neural networks (Klambauer, Unterthiner, Mayr, Hochreiter, arXiv "
                             "1706.02515); selu_layer of Synopsys's Caffe.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "selu" type: "SeLu" bottom: "x" top: "selu" })"}};
}

LayerDef SeluDropoutLayer() {
  return {.type = "SeLuDropout",
          .doc =
              "TRAIN: each element is set to alpha with probability dropout_ratio, then all are mapped by a*x + b, "
              "which keeps mean 0 and variance 1. TEST: x itself.",
          .build = BuildDropout,
          .page = {.params = {"selu_dropout_param"},
                   .formula = "TRAIN: `y = a * (x or, with probability ratio, alpha) + b` with `a = (q (1 + alpha^2 "
                              "ratio))^(-1/2)`, `q = 1 - ratio`, `b = -a * ratio * alpha`. TEST: `y = x`. ratio is "
                              "dropout_ratio (default 0.1), alpha -1.75809934.",
                   .gradient = "`dx = a * dy` where x was kept and 0 elsewhere; in TEST dy.",
                   .source = "Self-normalizing neural networks (Klambauer et al., arXiv 1706.02515); "
                             "selu_dropout_layer of Synopsys's Caffe.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 } } }
layer { name: "drop" type: "SeLuDropout" bottom: "x" top: "drop" selu_dropout_param { dropout_ratio: 0.2 } })"}};
}

}  // namespace moka
