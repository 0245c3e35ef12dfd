// v' = momentum*v + lr*g; w -= (1+momentum)*v' - momentum*v (Nesterov's method as Caffe writes it: over-stepped, with
// the former step taken back).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void NesterovEmit(ParameterUpdate& u) {
  const double momentum = u.solver().momentum();
  const std::string old = u.Slot("history");
  const std::string history =
      StrCat("(", ConstantText(momentum), "*", old, "+", u.Rate(), "*", u.DecayedGradient(), ")");
  u.SetSlot("history", history);
  u.SetWeight(
      StrCat(u.Weight(), "-(", ConstantText(1 + momentum), "*", history, "-", ConstantText(momentum), "*", old, ")"));
}

}  // namespace

Optimizer Nesterov() { return {.name = "Nesterov", .slots = {"history"}, .emit = NesterovEmit}; }

}  // namespace moka
