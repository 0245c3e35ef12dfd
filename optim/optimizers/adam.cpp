// m = b1*m + (1-b1)*g; v = b2*v + (1-b2)*g^2; Adam: w -= lr * sqrt(1-b2^t)/(1-b1^t) * m / (sqrt(v)+delta) (Kingma & Ba,
// ICLR 2015, section 2's last form, as in Caffe: delta is added to the uncorrected root). AdamW (Loshchilov & Hutter,
// ICLR 2019) takes the decay out of the gradient: w -= lr*decay*w + lr * m^/(sqrt(v^)+delta), m^ and v^ corrected.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

// The new moments, set as slots "m" and "v".
struct Moments {
  std::string m;
  std::string v;
};

Moments SetMoments(ParameterUpdate& u, const std::string& g) {
  const double b1 = u.solver().momentum();
  const double b2 = u.solver().momentum2();
  Moments moments{StrCat("(", ConstantText(b1), "*", u.Slot("m"), "+", ConstantText(1 - b1), "*", g, ")"),
                  StrCat("(", ConstantText(b2), "*", u.Slot("v"), "+", ConstantText(1 - b2), "*(", g, "*", g, "))")};
  u.SetSlot("m", moments.m);
  u.SetSlot("v", moments.v);
  return moments;
}

void EmitAdam(ParameterUpdate& u) {
  const Moments moments = SetMoments(u, u.DecayedGradient());
  const std::string rate = StrCat("(", u.Rate(), "*(sqrt(", u.Scalar("bias2"), ")/", u.Scalar("bias1"), "))");
  u.SetWeight(StrCat(u.Weight(), "-", rate, "*(", moments.m, "/(sqrt(", moments.v, ")+",
                     ConstantText(u.solver().delta()), "))"));
}

void EmitAdamW(ParameterUpdate& u) {
  const Moments moments = SetMoments(u, u.Gradient());
  const std::string step = StrCat("((", moments.m, "/", u.Scalar("bias1"), ")/(sqrt(", moments.v, "/",
                                  u.Scalar("bias2"), ")+", ConstantText(u.solver().delta()), "))");
  const std::string w = u.Weight();
  const std::string decayed =
      u.decay() == 0 ? w : StrCat("(", w, "-", u.Rate(), "*", ConstantText(u.decay()), "*", w, ")");
  u.SetWeight(StrCat(decayed, "-", u.Rate(), "*", step));
}

}  // namespace

Optimizer Adam() { return {.name = "Adam", .slots = {"m", "v"}, .emit = EmitAdam}; }
Optimizer AdamW() { return {.name = "AdamW", .slots = {"m", "v"}, .check = RequireL2, .emit = EmitAdamW}; }

}  // namespace moka
