// LARS (You, Gitman & Ginsburg, "Large batch training of convolutional networks", 2017): each parameter's rate is
// multiplied by lars_eta*|w| / (|g| + decay*|w|), 1 where a norm is zero; then as SGD with momentum. Norms in float32.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

// The scalar the rate of this parameter is multiplied by.
ValueId LarsLocalRate(ParameterUpdate& u) {
  const Term norm_w = Term::Input(0);
  const Term norm_g = Term::Input(1);
  const Term ratio = u.solver().lars_eta() * norm_w / (norm_g + u.decay() * norm_w);
  return u.builder().Pointwise(Select(norm_w > 0, Select(norm_g > 0, ratio, 1), 1), {u.WeightNorm(), u.GradientNorm()});
}

void LarsEmit(ParameterUpdate& u) {
  const Term rate = u.is_spared() ? u.Rate() : u.Rate() * u.Use(LarsLocalRate(u));
  const Term history = u.solver().momentum() * u.Slot("history") + rate * u.DecayedGradient();
  u.SetSlot("history", history);
  u.SetWeight(u.Weight() - history);
}

}  // namespace

Optimizer Lars() {
  return {.name = "LARS",
          .slots = {"history"},
          .fields = {"lars_eta"},
          .is_of_caffe = false,
          .decays_apart = true,
          .check = RequireL2,
          .emit = LarsEmit};
}

}  // namespace moka
