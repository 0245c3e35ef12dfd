// h = rms_decay*h + (1-rms_decay)*g^2; w -= lr*g / (sqrt(h)+delta) (Tieleman & Hinton, lecture 6e, 2012).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void RmspropEmit(ParameterUpdate& u) {
  const double decay = u.solver().rms_decay();
  const std::string g = u.DecayedGradient();
  const std::string history =
      StrCat("(", ConstantText(decay), "*", u.Slot("history"), "+", ConstantText(1 - decay), "*(", g, "*", g, "))");
  u.SetSlot("history", history);
  u.SetWeight(
      StrCat(u.Weight(), "-", u.Rate(), "*(", g, "/(sqrt(", history, ")+", ConstantText(u.solver().delta()), "))"));
}

}  // namespace

Optimizer RmsProp() {
  return {.name = "RMSProp", .slots = {"history"}, .check = RequireNoMomentum, .emit = RmspropEmit};
}

}  // namespace moka
