// v' = momentum*v + lr*g; w -= (1+momentum)*v' - momentum*v (Nesterov's method as Caffe writes it: over-stepped, with
// the former step taken back).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void NesterovEmit(ParameterUpdate& u) {
  const double momentum = u.solver().momentum();
  const Term old = u.Slot("history");
  const Term history = momentum * old + u.Rate() * u.DecayedGradient();
  u.SetSlot("history", history);
  u.SetWeight(u.Weight() - ((1 + momentum) * history - momentum * old));
}

}  // namespace

Optimizer Nesterov() { return {.name = "Nesterov", .slots = {"history"}, .emit = NesterovEmit}; }

}  // namespace moka
