// h = momentum*h + (1-momentum)*g^2; d = g*sqrt((delta+s)/(delta+h)); s = momentum*s + (1-momentum)*d^2; w -= lr*d
// (Zeiler, "ADADELTA", 2012, with Caffe's rate).
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void AdadeltaEmit(ParameterUpdate& u) {
  const std::string momentum = ConstantText(u.solver().momentum());
  const std::string rest = ConstantText(1 - double{u.solver().momentum()});
  const std::string delta = ConstantText(u.solver().delta());
  const std::string g = u.DecayedGradient();
  const std::string h = StrCat("(", momentum, "*", u.Slot("history"), "+", rest, "*(", g, "*", g, "))");
  const std::string step = StrCat("(", g, "*sqrt((", delta, "+", u.Slot("steps"), ")/(", delta, "+", h, ")))");
  u.SetSlot("history", h);
  u.SetSlot("steps", StrCat(momentum, "*", u.Slot("steps"), "+", rest, "*(", step, "*", step, ")"));
  u.SetWeight(StrCat(u.Weight(), "-", u.Rate(), "*", step));
}

}  // namespace

Optimizer AdaDelta() { return {.name = "AdaDelta", .slots = {"history", "steps"}, .emit = AdadeltaEmit}; }

}  // namespace moka
