// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020): r =
// m^/(sqrt(v^)+delta) + decay*w with Adam's corrected moments; w -= lr * |w|/|r| * r, the ratio 1 where a norm is zero.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void LambEmit(ParameterUpdate& u) {
  const double b1 = u.solver().momentum();
  const double b2 = u.solver().momentum2();
  const std::string g = u.Gradient();
  const std::string m = StrCat("(", ConstantText(b1), "*", u.Slot("m"), "+", ConstantText(1 - b1), "*", g, ")");
  const std::string v =
      StrCat("(", ConstantText(b2), "*", u.Slot("v"), "+", ConstantText(1 - b2), "*(", g, "*", g, "))");
  u.SetSlot("m", m);
  u.SetSlot("v", v);
  const std::string decay = u.decay() == 0 ? "" : StrCat("+", ConstantText(u.decay()), "*", u.Weight());
  const ValueId direction = u.FinishSlots(StrCat("(", m, "/", u.Scalar("bias1"), ")/(sqrt(", v, "/", u.Scalar("bias2"),
                                                 ")+", ConstantText(u.solver().delta()), ")", decay));
  std::string trust;
  if (!u.is_spared()) {
    const ValueId ratio =
        u.builder().Pointwise("select(gt(x0,0),select(gt(x1,0),x0/x1,1),1)", {u.WeightNorm(), u.Norm(direction)});
    trust = StrCat(u.Use(ratio), "*");
  }
  u.SetWeight(StrCat(u.Weight(), "-", u.Rate(), "*", trust, u.Use(direction)));
}

}  // namespace

Optimizer Lamb() { return {.name = "LAMB", .slots = {"m", "v"}, .check = RequireL2, .emit = LambEmit}; }

}  // namespace moka
