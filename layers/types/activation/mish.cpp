// y = x * tanh(log(1 + exp(x))) (Misra, arXiv 1908.08681). With e = exp(x) the tanh is n / (n + 2), n = e (e + 2),
// which no cancellation touches; above 20, where it is 1 to the last digit of a float, e stays what it is there.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMish(LayerBuilder& l) {
  const Term x = l.Bottom(0);
  const Term e = Exp(Min(x, 20));
  const Term n = e * (e + 2);
  l.SetTop(0, x * (n / (n + 2)));
}

}  // namespace

LayerDef MishLayer() { return {.type = "Mish", .build = BuildMish}; }

}  // namespace moka
