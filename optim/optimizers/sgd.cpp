// v = momentum*v + lr*g; w -= v. The rate is inside the history, so changing it rescales nothing already stored.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void Emit(ParameterUpdate& u) {
  const std::string step = StrCat(u.Rate(), "*", u.DecayedGradient());
  const double momentum = u.solver().momentum();
  if (momentum == 0) {
    u.SetWeight(StrCat(u.Weight(), "-", step));
    return;
  }
  const std::string history = StrCat("(", ConstantText(momentum), "*", u.Slot("history"), "+", step, ")");
  u.SetSlot("history", history);
  u.SetWeight(StrCat(u.Weight(), "-", history));
}

void Check(const SolverParameter& solver) { RequireInRange(solver, "momentum", solver.momentum(), 0, 1); }

}  // namespace

Optimizer Sgd() { return {.name = "SGD", .slots = {"history"}, .check = Check, .emit = Emit}; }

}  // namespace moka
