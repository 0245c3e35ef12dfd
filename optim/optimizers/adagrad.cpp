// h += g^2; w -= lr*g / (sqrt(h)+delta) (Duchi et al., "Adaptive subgradient methods", JMLR 2011).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void AdagradEmit(ParameterUpdate& u) {
  const Term g = u.DecayedGradient();
  const Term history = u.Slot("history") + Square(g);
  u.SetSlot("history", history);
  u.SetWeight(u.Weight() - u.Rate() * (g / (Sqrt(history) + u.solver().delta())));
}

}  // namespace

Optimizer AdaGrad() {
  return {
      .name = "AdaGrad", .slots = {"history"}, .fields = {"delta"}, .check = RequireNoMomentum, .emit = AdagradEmit};
}

}  // namespace moka
