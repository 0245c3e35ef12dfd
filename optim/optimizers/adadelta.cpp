// h = momentum*h + (1-momentum)*g^2; d = g*sqrt((delta+s)/(delta+h)); s = momentum*s + (1-momentum)*d^2; w -= lr*d
// (Zeiler, "ADADELTA", 2012, with Caffe's rate).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void AdadeltaEmit(ParameterUpdate& u) {
  const double momentum = u.solver().momentum();
  const double delta = u.solver().delta();
  const Term g = u.DecayedGradient();
  const Term s = u.Slot("steps");
  const Term h = momentum * u.Slot("history") + (1 - momentum) * Square(g);
  const Term d = g * Sqrt((delta + s) / (delta + h));
  u.SetSlot("history", h);
  u.SetSlot("steps", momentum * s + (1 - momentum) * Square(d));
  u.SetWeight(u.Weight() - u.Rate() * d);
}

}  // namespace

Optimizer AdaDelta() {
  return {.name = "AdaDelta", .slots = {"history", "steps"}, .fields = {"delta"}, .emit = AdadeltaEmit};
}

}  // namespace moka
