// w -= lr*(sign(b1*m + (1-b1)*g) + decay*w); m = b2*m + (1-b2)*g (Chen et al., "Symbolic discovery of optimization
// algorithms", arXiv 2302.06675, algorithm 2): b1 is the solver's momentum, b2 its momentum2.
#include "optim/optimizers/optimizer.h"

namespace moka {
namespace {

void EmitLion(ParameterUpdate& u) {
  const double b1 = u.solver().momentum();
  const double b2 = u.solver().momentum2();
  const Term g = u.Gradient();
  const Term m = u.Slot("m");
  const Term w = u.Weight();
  const Term step = Sign(b1 * m + (1 - b1) * g);
  u.SetSlot("m", b2 * m + (1 - b2) * g);
  u.SetWeight(u.decay() == 0 ? w - u.Rate() * step : w - u.Rate() * (step + u.decay() * w));
}

}  // namespace

Optimizer Lion() {
  return {.name = "Lion",
          .slots = {"m"},
          .fields = {"momentum2"},
          .is_of_caffe = false,
          .decays_apart = true,
          .check = RequireL2,
          .emit = EmitLion};
}

}  // namespace moka
