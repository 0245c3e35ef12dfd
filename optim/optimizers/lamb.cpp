// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020): r =
// m^/(sqrt(v^)+delta) + decay*w with Adam's corrected moments; w -= lr * |w|/|r| * r, the ratio 1 where a norm is zero.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void LambEmit(ParameterUpdate& u) {
  const double b1 = u.solver().momentum();
  const double b2 = u.solver().momentum2();
  const Term g = u.Gradient();
  const Term m = b1 * u.Slot("m") + (1 - b1) * g;
  const Term v = b2 * u.Slot("v") + (1 - b2) * Square(g);
  u.SetSlot("m", m);
  u.SetSlot("v", v);
  Term r = (m / u.Scalar("bias1")) / (Sqrt(v / u.Scalar("bias2")) + u.solver().delta());
  if (u.decay() != 0) r = r + u.decay() * u.Weight();
  const ValueId direction = u.FinishSlots(r);
  const Term w = u.Weight();
  if (u.is_spared()) return u.SetWeight(w - u.Rate() * u.Use(direction));
  const Term norm_w = Term::Input(0);
  const Term norm_r = Term::Input(1);
  const Term ratio = Select(norm_w > 0, Select(norm_r > 0, norm_w / norm_r, 1), 1);
  const ValueId trust = u.builder().Pointwise(ratio, {u.WeightNorm(), u.Norm(direction)});
  u.SetWeight(w - u.Rate() * u.Use(trust) * u.Use(direction));
}

}  // namespace

Optimizer Lamb() {
  return {.name = "LAMB",
          .slots = {"m", "v"},
          .fields = {"momentum2", "delta"},
          .is_of_caffe = false,
          .decays_apart = true,
          .check = RequireL2,
          .emit = LambEmit};
}

}  // namespace moka
