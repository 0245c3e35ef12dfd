// y = x * tanh(log(1 + exp(x))) (Misra, arXiv 1908.08681). With e = exp(x) the tanh is n / (n + 2), n = e (e + 2),
// which no cancellation touches; above 20, where it is 1 to the last digit of a float, e stays what it is there.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMish(LayerBuilder& l) {
  l.SetTop(0, l.b().Pointwise("t0=exp(min(x0,20));t1=t0*(t0+2);x0*(t1/(t1+2))", {l.bottom(0)}));
}

}  // namespace

LayerDef MishLayer() {
  return {
      .type = "Mish",
      .doc = "x * tanh(log(1 + exp(x))) of each element; the top has the bottom's shape. It has no fields.",
      .build = BuildMish,
      .page = {.params = {},
               .formula = "`y = x * tanh(log(1 + exp(x)))`, element by element. The top has the bottom's shape.",
               .gradient = "`dx = dy * (t + x * (1 - t^2) * s(x))` with t the tanh above and s the sigmoid.",
               .source = "Misra, \"Mish: A Self Regularized Non-Monotonic Activation Function\", arXiv 1908.08681; the "
                         "layer of ChenYingpeng's darknet2caffe for YOLO v4.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "mish" type: "Mish" bottom: "x" top: "mish" })"}};
}

}  // namespace moka
