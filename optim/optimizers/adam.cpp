// m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g^2; Adam: w -= lr * sqrt(1-b2^t)/(1-b1^t) * m / (sqrt(v)+delta) (Kingma & Ba,
// ICLR 2015, section 2's last form, as in Caffe: delta is added to the uncorrected root). AdamW (Loshchilov & Hutter,
// ICLR 2019) takes the decay out of the gradient: w -= lr*decay*w + lr * m^/(sqrt(v^)+delta), m^ and v^ corrected.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

// The new moments, set as slots "m" and "v".
struct Moments {
  Term m;
  Term v;
};

Moments SetMoments(ParameterUpdate& u, const Term& g) {
  const double b1 = u.solver().momentum();
  const double b2 = u.solver().momentum2();
  Moments moments{b1 * u.Slot("m") + (1 - b1) * g, b2 * u.Slot("v") + (1 - b2) * Square(g)};
  u.SetSlot("m", moments.m);
  u.SetSlot("v", moments.v);
  return moments;
}

void EmitAdam(ParameterUpdate& u) {
  const auto [m, v] = SetMoments(u, u.DecayedGradient());
  const Term rate = u.Rate() * (Sqrt(u.Scalar("bias2")) / u.Scalar("bias1"));
  u.SetWeight(u.Weight() - rate * (m / (Sqrt(v) + u.solver().delta())));
}

void EmitAdamW(ParameterUpdate& u) {
  const auto [m, v] = SetMoments(u, u.Gradient());
  const Term step = (m / u.Scalar("bias1")) / (Sqrt(v / u.Scalar("bias2")) + u.solver().delta());
  const Term w = u.Weight();
  const Term decayed = u.decay() == 0 ? w : w - u.Rate() * u.decay() * w;
  u.SetWeight(decayed - u.Rate() * step);
}

}  // namespace

Optimizer Adam() { return {.name = "Adam", .slots = {"m", "v"}, .fields = {"momentum2", "delta"}, .emit = EmitAdam}; }

Optimizer AdamW() {
  return {.name = "AdamW",
          .slots = {"m", "v"},
          .fields = {"momentum2", "delta"},
          .is_of_caffe = false,
          .decays_apart = true,
          .check = RequireL2,
          .emit = EmitAdamW};
}

}  // namespace moka
