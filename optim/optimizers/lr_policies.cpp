// The policies of Caffe and its forks (SGDSolver::GetLearningRate), and cosine.
#include "optim/optimizers/lr_policies.h"

#include <cmath>
#include <numbers>

namespace moka {
namespace {

double Fixed(const SolverParameter& s, int64_t) { return s.base_lr(); }

double Step(const SolverParameter& s, int64_t iter) {
  const int64_t steps = iter / s.stepsize();
  return s.base_lr() * std::pow(double{s.gamma()}, static_cast<double>(steps));
}

double Exp(const SolverParameter& s, int64_t iter) {
  return s.base_lr() * std::pow(double{s.gamma()}, static_cast<double>(iter));
}

double Inv(const SolverParameter& s, int64_t iter) {
  return s.base_lr() * std::pow(1 + s.gamma() * static_cast<double>(iter), -double{s.power()});
}

// Values are passed in the order written and one an iteration, as Caffe does: one that does not ascend is passed in the
// iteration after the one before it.
double MultiStep(const SolverParameter& s, int64_t iter) {
  int passed = 0;
  int64_t at = -1;
  for (const int32_t value : s.stepvalue()) {
    at = std::max<int64_t>(value, at + 1);
    if (iter < at) break;
    ++passed;
  }
  return s.base_lr() * std::pow(double{s.gamma()}, passed);
}

// stagelr[i] up to and with iteration stageiter[i]; the last rate from then on.
double MultiFixed(const SolverParameter& s, int64_t iter) {
  int stage = 0;
  while (stage + 1 < s.stagelr_size() && iter > s.stageiter(stage)) ++stage;
  return s.stagelr(stage);
}

double Poly(const SolverParameter& s, int64_t iter) {
  const double low = s.min_lr();
  return low + (s.base_lr() - low) * std::pow(1 - PolicyProgress(s, iter), double{s.power()});
}

double Sigmoid(const SolverParameter& s, int64_t iter) {
  return s.base_lr() / (1 + std::exp(-s.gamma() * static_cast<double>(iter - s.stepsize())));
}

double Cosine(const SolverParameter& s, int64_t iter) {
  const double low = s.min_lr();
  return low + (s.base_lr() - low) * (1 + std::cos(std::numbers::pi * PolicyProgress(s, iter))) / 2;
}

}  // namespace

std::vector<LrPolicy> CaffeLrPolicies() {
  static const LrPolicy::Unset kNoPower = {"power", "it is 0 and the rate stays the same"};
  static const LrPolicy::Unset kNoGamma = {"gamma", "it is 0"};
  static const LrPolicy::Unset kFallsToZero = {"gamma", "it is 0 and the rate falls to 0"};
  return {
      {.name = "cosine", .needs = {"max_iter"}, .has_end = true, .rate = Cosine},
      {.name = "exp", .reads = {"gamma"}, .unset = {kFallsToZero}, .rate = Exp},
      {.name = "fixed", .counts = false, .rate = Fixed},
      {.name = "inv", .reads = {"gamma", "power"}, .unset = {kNoPower, kNoGamma}, .rate = Inv},
      {.name = "multifixed", .reads = {"stageiter", "stagelr"}, .needs = {"stagelr", "stageiter"}, .rate = MultiFixed},
      {.name = "multistep",
       .reads = {"gamma", "stepvalue"},
       .unset = {{"stepvalue", "the rate stays the same"}, kFallsToZero},
       .rate = MultiStep},
      {.name = "plateau",
       .reads = {"gamma", "plateau_winsize"},
       .needs = {"gamma", "plateau_winsize"},
       .counts = false,
       .rate = Fixed},
      {.name = "poly", .reads = {"power"}, .needs = {"max_iter"}, .unset = {kNoPower}, .has_end = true, .rate = Poly},
      {.name = "sigmoid", .reads = {"gamma", "stepsize"}, .needs = {"stepsize"}, .unset = {kNoGamma}, .rate = Sigmoid},
      {.name = "step", .reads = {"gamma", "stepsize"}, .needs = {"stepsize"}, .unset = {kFallsToZero}, .rate = Step},
  };
}

}  // namespace moka
