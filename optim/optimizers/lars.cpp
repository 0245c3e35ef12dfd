// LARS (You, Gitman & Ginsburg, "Large batch training of convolutional networks", 2017): each parameter's rate is
// multiplied by lars_eta*|w| / (|g| + decay*|w|), 1 where a norm is zero; then as SGD with momentum. Norms in float32.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

// The scalar the rate of this parameter is multiplied by.
ValueId LarsLocalRate(ParameterUpdate& u) {
  const ValueId w = u.WeightNorm();
  const ValueId g = u.GradientNorm();
  const std::string denominator = StrCat("(x1+", ConstantText(u.decay()), "*x0)");
  return u.builder().Pointwise(
      StrCat("select(gt(x0,0),select(gt(x1,0),", ConstantText(u.solver().lars_eta()), "*x0/", denominator, ",1),1)"),
      {w, g});
}

void LarsEmit(ParameterUpdate& u) {
  const std::string local = u.is_spared() ? "" : StrCat(u.Use(LarsLocalRate(u)), "*");
  const std::string step = StrCat(u.Rate(), "*", local, u.DecayedGradient());
  const std::string history = StrCat("(", ConstantText(u.solver().momentum()), "*", u.Slot("history"), "+", step, ")");
  u.SetSlot("history", history);
  u.SetWeight(StrCat(u.Weight(), "-", history));
}

}  // namespace

Optimizer Lars() { return {.name = "LARS", .slots = {"history"}, .check = RequireL2, .emit = LarsEmit}; }

}  // namespace moka
