// v = momentum*v + lr*g; w -= v. The rate is inside the history, so changing it rescales nothing already stored.
// NVIDIA's larc and Intel's local_lr_auto set each parameter's rate from its norms (You, Gitman & Ginsburg, 2017, in
// two other forms); they take the place of lr_mult.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

// NVIDIA: (1-momentum) * eta * |w| / |g|, g without decay; "scale" multiplies the rate by it, "clip" takes the smaller.
// 1 where a norm is zero.
Term LarcRate(ParameterUpdate& u) {
  const Term norm_w = u.Use(u.WeightNorm());
  const Term norm_g = u.Use(u.GradientNorm());
  const Term ratio = (1 - u.Momentum()) * u.solver().larc_eta() * norm_w / norm_g;
  const Term local = Select(norm_w > 0, Select(norm_g > 0, ratio, 1), 1);
  return u.solver().larc_policy() == "clip" ? Min(u.GlobalRate(), local) : u.GlobalRate() * local;
}

// Intel: rate * ratio * |w| / (|g| + weight_decay*|w|), without decay_mult; the plain rate where a norm is zero.
Term SgdLocalRate(ParameterUpdate& u) {
  const Term norm_w = u.Use(u.WeightNorm());
  const Term norm_g = u.Use(u.GradientNorm());
  const Term ratio = u.solver().local_gw_ratio() * norm_w / (norm_g + u.solver().weight_decay() * norm_w);
  return u.GlobalRate() * Select(norm_w > 0, Select(norm_g > 0, ratio, 1), 1);
}

Term Rate(ParameterUpdate& u) {
  if (u.is_spared()) return u.Rate();
  if (u.solver().larc()) return LarcRate(u);
  return u.solver().local_lr_auto() ? SgdLocalRate(u) : u.Rate();
}

// The gradient's own part in the history goes, the decay's stays.
void EmitCorrected(ParameterUpdate& u) {
  const Term part = u.Scalar("gradient_momentum");
  const Term g = u.Gradient();
  const Term rate = Rate(u);
  const Term history = u.Momentum() * u.Slot("history") + rate * u.Decayed(part * g);
  u.SetSlot("history", history);
  u.SetWeight(u.Weight() - history - (1 - part) * rate * g);
}

void SgdEmit(ParameterUpdate& u) {
  if (u.is_corrected() && u.has_momentum()) return EmitCorrected(u);
  const Term step = Rate(u) * u.DecayedGradient();
  if (!u.has_momentum()) return u.SetWeight(u.Weight() - step);
  const Term history = u.Momentum() * u.Slot("history") + step;
  u.SetSlot("history", history);
  u.SetWeight(u.Weight() - history);
}

void CheckSgd(const SolverParameter& solver) {
  if (solver.larc()) {
    RequireOneOf(solver, "larc_policy", solver.larc_policy(), {"clip", "scale"});
  }
}

}  // namespace

Optimizer Sgd() { return {.name = "SGD", .slots = {"history"}, .check = CheckSgd, .emit = SgdEmit}; }

}  // namespace moka
