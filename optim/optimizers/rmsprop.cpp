// h = rms_decay*h + (1-rms_decay)*g^2; w -= lr*g / (sqrt(h)+delta) (Tieleman & Hinton, lecture 6e, 2012).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void RmspropEmit(ParameterUpdate& u) {
  const double decay = u.solver().rms_decay();
  const Term g = u.DecayedGradient();
  const Term history = decay * u.Slot("history") + (1 - decay) * Square(g);
  u.SetSlot("history", history);
  u.SetWeight(u.Weight() - u.Rate() * (g / (Sqrt(history) + u.solver().delta())));
}

}  // namespace

Optimizer RmsProp() {
  return {.name = "RMSProp",
          .slots = {"history"},
          .fields = {"rms_decay", "delta"},
          .check = RequireNoMomentum,
          .emit = RmspropEmit};
}

}  // namespace moka
