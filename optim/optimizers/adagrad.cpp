// h += g^2; w -= lr*g / (sqrt(h)+delta) (Duchi et al., "Adaptive subgradient methods", JMLR 2011).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void AdagradEmit(ParameterUpdate& u) {
  const std::string g = u.DecayedGradient();
  const std::string history = StrCat("(", u.Slot("history"), "+", g, "*", g, ")");
  u.SetSlot("history", history);
  u.SetWeight(
      StrCat(u.Weight(), "-", u.Rate(), "*(", g, "/(sqrt(", history, ")+", ConstantText(u.solver().delta()), "))"));
}

}  // namespace

Optimizer AdaGrad() {
  return {.name = "AdaGrad", .slots = {"history"}, .check = RequireNoMomentum, .emit = AdagradEmit};
}

}  // namespace moka
