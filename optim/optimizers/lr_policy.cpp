// One function a policy, in double, with Caffe's names; the checks of the numbers are here as they know which field a
// policy reads.
#include "optim/optimizers/lr_policy.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/optimizers/lr_policies.h"
#include "optim/optimizers/solver_checks.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Part of the training that is done, at most 1.
double Progress(const SolverParameter& s, int64_t iter) {
  return std::min(1.0, static_cast<double>(iter) / s.max_iter());
}

const std::vector<LrPolicy>& Table() {
  static const std::vector<LrPolicy> kTable = [] {
    std::vector<LrPolicy> rows = LrPolicyRows();
    std::ranges::sort(rows, {}, &LrPolicy::name);
    return rows;
  }();
  return kTable;
}

bool IsGiven(const SolverParameter& s, const std::string& field) {
  const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
  const auto* reflection = s.GetReflection();
  return descriptor->is_repeated() ? reflection->FieldSize(s, descriptor) > 0 : reflection->HasField(s, descriptor);
}

[[noreturn]] void FailLrPolicy(const SolverParameter& s, std::string_view field, std::string text,
                               std::string hint = {}) {
  throw Error(ErrorKind::kConfig, PlaceOf(s, field), std::move(text), std::move(hint));
}

// The rate that a warm-up leads to; "multifixed" needs no base_lr.
double FirstRate(const SolverParameter& s) {
  const bool has_own = !s.has_base_lr() && s.lr_policy() == "multifixed" && s.stagelr_size() > 0;
  return has_own ? s.stagelr(0) : s.base_lr();
}

void CheckLrPolicyNumbers(const SolverParameter& s, const LrPolicy& policy) {
  if (s.min_lr() > FirstRate(s)) {
    FailLrPolicy(
        s, "min_lr",
        StrCat("min_lr ", s.min_lr(), " is above ", s.has_base_lr() ? "base_lr " : "the first rate, ", FirstRate(s)));
  }
  if (s.warmup_iter() > 0 && s.rampup_interval() > 0) {
    FailLrPolicy(s, "rampup_interval",
                 "warmup_iter and rampup_interval are two ways for the rate to begin; give one of them");
  }
  if (s.lr_policy() == "step" && s.stepsize() <= 0) {
    FailLrPolicy(s, "stepsize", StrCat("lr_policy \"step\" needs a stepsize of at least 1, and it is ", s.stepsize()));
  }
  if (policy.has_end && s.max_iter() <= 0) {
    FailLrPolicy(s, "max_iter",
                 StrCat("lr_policy \"", s.lr_policy(), "\" needs a max_iter of at least 1, and it is ", s.max_iter()));
  }
  for (int i = 1; i < s.stepvalue_size(); ++i) {
    if (s.stepvalue(i) > s.stepvalue(i - 1)) continue;
    LogWarning(StrCat(PlaceOf(s, StrCat("stepvalue[", i, "]")).ToString(), ": stepvalue ", s.stepvalue(i), " follows ",
                      s.stepvalue(i - 1), "; the rate falls an iteration after the one before"));
  }
  if (s.lr_policy() == "multifixed" && s.stagelr_size() != s.stageiter_size()) {
    FailLrPolicy(s, "stageiter[0]",
                 StrCat("there are ", s.stagelr_size(), " stagelr and ", s.stageiter_size(),
                        " stageiter; give as many of each"));
  }
  for (int i = 1; s.lr_policy() == "multifixed" && i < s.stageiter_size(); ++i) {
    if (s.stageiter(i) > s.stageiter(i - 1)) continue;
    LogWarning(StrCat(PlaceOf(s, StrCat("stageiter[", i, "]")).ToString(), ": stageiter ", s.stageiter(i), " follows ",
                      s.stageiter(i - 1), "; its rate, ", s.stagelr(i), ", is ",
                      i + 1 == s.stageiter_size() ? "that of all iterations behind it" : "that of no iteration"));
  }
}

void CheckPolicyAfterWarmup(const SolverParameter& s, const LrPolicy& policy) {
  if (!s.policy_after_warmup()) return;
  const auto fail = [&](const std::string& text, const std::string& hint) {
    FailLrPolicy(s, "policy_after_warmup", "policy_after_warmup " + text, hint);
  };
  if (WarmupEnd(s) <= 0) fail("needs a warm-up, and there is none", "give warmup_iter, or remove the line");
  if (!policy.counts) {
    fail(StrCat("has no meaning for lr_policy \"", s.lr_policy(), "\", which counts no iterations"), "remove the line");
  }
  if (policy.has_end && WarmupEnd(s) >= s.max_iter()) {
    fail(StrCat("leaves lr_policy \"", s.lr_policy(), "\" no iterations: the warm-up takes ", WarmupEnd(s),
                ", and max_iter is ", s.max_iter()),
         "max_iter counts the warm-up as well");
  }
}

void CheckMomentumAndDecay(const SolverParameter& s) {
  RequireOneOf(s, "momentum_policy", s.momentum_policy(), {"fixed", "opt", "poly"});
  RequireOneOf(s, "weight_decay_policy", s.weight_decay_policy(), {"fixed", "poly"});
  for (const auto& [field, policy] :
       {std::pair{"momentum_policy", s.momentum_policy()}, std::pair{"weight_decay_policy", s.weight_decay_policy()}}) {
    if (policy == "poly" && s.max_iter() <= 0) {
      FailLrPolicy(s, field, StrCat(field, " \"poly\" needs a max_iter of at least 1, and it is ", s.max_iter()));
    }
  }
}

}  // namespace

const LrPolicy* FindLrPolicy(std::string_view name) {
  const auto& table = Table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const LrPolicy& p) { return p.name == name; });
  return it == table.end() ? nullptr : &*it;
}

const std::vector<std::string>& LrPolicies() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const LrPolicy& policy : Table()) names.push_back(policy.name);
    return names;
  }();
  return kNames;
}

void CheckLrPolicy(const SolverParameter& solver) {
  if (!solver.has_base_lr() && solver.lr_policy() != "multifixed") {
    FailLrPolicy(solver, "", "the solver has no base_lr", "give the learning rate, such as base_lr: 0.01");
  }
  if (!solver.has_lr_policy()) {
    FailLrPolicy(solver, "", "the solver has no lr_policy", StrCat("known are ", Join(LrPolicies(), ", ")));
  }
  const LrPolicy* policy = FindLrPolicy(solver.lr_policy());
  if (policy == nullptr) {
    std::string hint = DidYouMean(solver.lr_policy(), LrPolicies());
    if (hint.empty()) hint = StrCat("known are ", Join(LrPolicies(), ", "));
    FailLrPolicy(solver, "lr_policy", StrCat("unknown lr_policy \"", solver.lr_policy(), "\""), hint);
  }
  for (const std::string& field : policy->needs) {
    if (!IsGiven(solver, field)) {
      FailLrPolicy(solver, "lr_policy",
                   StrCat("lr_policy \"", policy->name, "\" needs ", field, ", which is not given"));
    }
  }
  for (const LrPolicy::Unset& unset : policy->unset) {
    if (IsGiven(solver, unset.field)) continue;
    LogWarning(StrCat(PlaceOf(solver, "lr_policy").ToString(), ": lr_policy \"", policy->name, "\" has no ",
                      unset.field, "; as in Caffe ", unset.outcome));
  }
  CheckLrPolicyNumbers(solver, *policy);
  CheckPolicyAfterWarmup(solver, *policy);
  CheckMomentumAndDecay(solver);
}

void UpdatePlateau(const SolverParameter& solver, int64_t iter, double smoothed_loss, PlateauState& state) {
  if (solver.lr_policy() != "plateau" || iter == 0) return;
  if (smoothed_loss < state.minimum_loss) {
    state.minimum_loss = smoothed_loss;
    state.last_event = iter;
  }
  if (state.step >= solver.plateau_winsize_size()) return;
  if (iter < state.last_event + solver.plateau_winsize(state.step)) return;
  ++state.step;
  state.last_event = iter;
}

double LearningRate(const SolverParameter& solver, int64_t iter, int plateau_step) {
  const LrPolicy* policy = FindLrPolicy(solver.lr_policy());
  Require(policy != nullptr, "LearningRate: CheckLrPolicy passed");
  const int64_t warmup = solver.warmup_iter();
  if (iter < warmup) {
    const double start = solver.warmup_start_lr();
    return start + (FirstRate(solver) - start) * static_cast<double>(iter) / static_cast<double>(warmup);
  }
  if (iter < solver.rampup_interval()) {
    const double done = static_cast<double>(iter) / solver.rampup_interval();
    const double rate = solver.rampup_lr() + (FirstRate(solver) - solver.rampup_lr()) * done * done;
    return std::max(rate, double{solver.min_lr()});
  }
  const double rate =
      policy->rate(solver, iter - FirstOfPolicy(solver)) * std::pow(double{solver.gamma()}, plateau_step);
  return std::max(rate, double{solver.min_lr()});
}

double MomentumAt(const SolverParameter& solver, int64_t iter) {
  const double base = solver.momentum();
  if (solver.momentum_policy() == "poly") {
    return base + (solver.max_momentum() - base) * std::pow(Progress(solver, iter), double{solver.momentum_power()});
  }
  if (solver.momentum_policy() == "opt") {
    const double root = 1 - 0.5 * std::sqrt(LearningRate(solver, iter));
    return solver.has_max_momentum() ? std::min(root * root, double{solver.max_momentum()}) : root * root;
  }
  return base;
}

double WeightDecayAt(const SolverParameter& solver, int64_t iter) {
  const double base = solver.weight_decay();
  if (solver.weight_decay_policy() != "poly") return base;
  return base +
         (solver.max_weight_decay() - base) * std::pow(Progress(solver, iter), double{solver.weight_decay_power()});
}

}  // namespace moka
