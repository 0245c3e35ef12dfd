// v = momentum*v + lr*g; w -= v. The rate is inside the history, so changing it rescales nothing already stored.
// NVIDIA's larc and Intel's local_lr_auto set each parameter's rate from its norms (You, Gitman & Ginsburg, 2017, in
// two other forms); they take the place of lr_mult.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

// NVIDIA: (1-momentum) * eta * |w| / |g|, g without decay; "scale" multiplies the rate by it, "clip" takes the smaller.
// 1 where a norm is zero.
std::string LarcRate(ParameterUpdate& u) {
  const ValueId w = u.WeightNorm();
  const ValueId g = u.GradientNorm();
  const std::string eta = ConstantText(u.solver().larc_eta());
  const std::string norm_w = u.Use(w);
  const std::string norm_g = u.Use(g);
  const std::string local = StrCat("select(gt(", norm_w, ",0),select(gt(", norm_g, ",0),(1-", u.Momentum(), ")*", eta,
                                   "*", norm_w, "/", norm_g, ",1),1)");
  if (u.solver().larc_policy() == "clip") return StrCat("min(", u.GlobalRate(), ",", local, ")");
  return StrCat("(", u.GlobalRate(), "*", local, ")");
}

// Intel: rate * ratio * |w| / (|g| + weight_decay*|w|), without decay_mult; the plain rate where a norm is zero.
std::string SgdLocalRate(ParameterUpdate& u) {
  const std::string norm_w = u.Use(u.WeightNorm());
  const std::string norm_g = u.Use(u.GradientNorm());
  const std::string below = StrCat("(", norm_g, "+", ConstantText(u.solver().weight_decay()), "*", norm_w, ")");
  return StrCat("(", u.GlobalRate(), "*select(gt(", norm_w, ",0),select(gt(", norm_g, ",0),",
                ConstantText(u.solver().local_gw_ratio()), "*", norm_w, "/", below, ",1),1))");
}

std::string Rate(ParameterUpdate& u) {
  if (u.is_spared()) return u.Rate();
  if (u.solver().larc()) return LarcRate(u);
  return u.solver().local_lr_auto() ? SgdLocalRate(u) : u.Rate();
}

// The gradient's own part in the history goes, the decay's stays.
void EmitCorrected(ParameterUpdate& u) {
  const std::string part = u.Scalar("gradient_momentum");
  const std::string g = u.Gradient();
  const std::string rate = Rate(u);
  const std::string history =
      StrCat("(", u.Momentum(), "*", u.Slot("history"), "+", rate, "*", u.Decayed(StrCat("(", part, "*", g, ")")), ")");
  u.SetSlot("history", history);
  u.SetWeight(StrCat(u.Weight(), "-", history, "-(1-", part, ")*", rate, "*", g));
}

void SgdEmit(ParameterUpdate& u) {
  if (u.is_corrected() && u.has_momentum()) return EmitCorrected(u);
  const std::string step = StrCat(Rate(u), "*", u.DecayedGradient());
  if (!u.has_momentum()) {
    u.SetWeight(StrCat(u.Weight(), "-", step));
    return;
  }
  const std::string history = StrCat("(", u.Momentum(), "*", u.Slot("history"), "+", step, ")");
  u.SetSlot("history", history);
  u.SetWeight(StrCat(u.Weight(), "-", history));
}

void CheckSgd(const SolverParameter& solver) {
  if (solver.larc()) {
    RequireOneOf(solver, "larc_policy", solver.larc_policy(), {"clip", "scale"});
  }
}

}  // namespace

Optimizer Sgd() { return {.name = "SGD", .slots = {"history"}, .check = CheckSgd, .emit = SgdEmit}; }

}  // namespace moka
