// h = momentum*h + (1-momentum)*g^2; d = g*sqrt((delta+s)/(delta+h)); s = momentum*s + (1-momentum)*d^2; w -= lr*d
// (Zeiler, "ADADELTA", 2012, with Caffe's rate).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void Emit(ParameterUpdate& u) {
  const double momentum = u.solver().momentum();
  const double delta = u.solver().delta();
  const std::string g = u.DecayedGradient();
  const std::string h = StrCat("(", momentum, "*", u.Slot("history"), "+", 1 - momentum, "*(", g, "*", g, "))");
  const std::string step = StrCat("(", g, "*sqrt((", delta, "+", u.Slot("steps"), ")/(", delta, "+", h, ")))");
  u.SetSlot("history", h);
  u.SetSlot("steps", StrCat(momentum, "*", u.Slot("steps"), "+", 1 - momentum, "*(", step, "*", step, ")"));
  u.SetWeight(StrCat(u.Weight(), "-", u.Rate(), "*", step));
}

void Check(const SolverParameter& solver) {
  RequireInRange(solver, "momentum", solver.momentum(), 0, 1);
  RequireInRange(solver, "delta", solver.delta(), 0, 1e6);
}

}  // namespace

Optimizer AdaDelta() { return {.name = "AdaDelta", .slots = {"history", "steps"}, .check = Check, .emit = Emit}; }

}  // namespace moka
