// From base_lr down to min_lr and up again, each way in stepsize iterations (Smith, "Cyclical learning rates for
// training neural networks", WACV 2017, the policy "triangular", begun at its peak).
#include <cmath>

#include "optim/optimizers/lr_policies.h"

namespace moka {
namespace {

double Triangular(const SolverParameter& s, int64_t iter) {
  const double low = s.min_lr();
  const double half_cycles = static_cast<double>(iter) / s.stepsize();
  return low + (s.base_lr() - low) * std::abs(1 - std::fmod(half_cycles, 2.0));
}

}  // namespace

LrPolicy TriangularPolicy() {
  return {.name = "triangular", .reads = {"stepsize"}, .needs = {"stepsize"}, .rate = Triangular};
}

}  // namespace moka
