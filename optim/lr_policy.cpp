#include "optim/lr_policy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "core/error.h"
#include "core/text.h"
#include "proto/places.h"

namespace moka {
namespace {

// One row of the table of policies.
struct LrPolicy {
  std::string name;
  std::vector<std::string> needs;  // fields that must be given
  double (*rate)(const SolverParameter&, int64_t iter);
};

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

double MultiStep(const SolverParameter& s, int64_t iter) {
  const auto passed = std::count_if(s.stepvalue().begin(), s.stepvalue().end(), [&](int v) { return iter >= v; });
  return s.base_lr() * std::pow(double{s.gamma()}, static_cast<double>(passed));
}

// Part of the training that is done, at most 1.
double Progress(const SolverParameter& s, int64_t iter) {
  return std::min(1.0, static_cast<double>(iter) / s.max_iter());
}

double Poly(const SolverParameter& s, int64_t iter) {
  const double low = s.min_lr();
  return low + (s.base_lr() - low) * std::pow(1 - Progress(s, iter), double{s.power()});
}

double Sigmoid(const SolverParameter& s, int64_t iter) {
  return s.base_lr() / (1 + std::exp(-s.gamma() * static_cast<double>(iter - s.stepsize())));
}

double Cosine(const SolverParameter& s, int64_t iter) {
  const double low = s.min_lr();
  return low + (s.base_lr() - low) * (1 + std::cos(std::numbers::pi * Progress(s, iter))) / 2;
}

const std::vector<LrPolicy>& Table() {
  static const std::vector<LrPolicy> kTable = {
      {"cosine", {"max_iter"}, Cosine},
      {"exp", {"gamma"}, Exp},
      {"fixed", {}, Fixed},
      {"inv", {"gamma", "power"}, Inv},
      {"multistep", {"gamma", "stepvalue"}, MultiStep},
      {"poly", {"power", "max_iter"}, Poly},
      {"sigmoid", {"gamma", "stepsize"}, Sigmoid},
      {"step", {"gamma", "stepsize"}, Step},
  };
  return kTable;
}

const LrPolicy* FindPolicy(std::string_view name) {
  const auto& table = Table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const LrPolicy& p) { return p.name == name; });
  return it == table.end() ? nullptr : &*it;
}

bool IsGiven(const SolverParameter& s, const std::string& field) {
  const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
  const auto* reflection = s.GetReflection();
  return descriptor->is_repeated() ? reflection->FieldSize(s, descriptor) > 0 : reflection->HasField(s, descriptor);
}

[[noreturn]] void Fail(const SolverParameter& s, std::string_view field, std::string text, std::string hint = {}) {
  throw Error(ErrorKind::kConfig, PlaceOf(s, field), std::move(text), std::move(hint));
}

void CheckNumbers(const SolverParameter& s) {
  const auto at_least_0 = [&](std::string_view field, double value) {
    if (!(value >= 0) || !std::isfinite(value)) {
      Fail(s, field, StrCat(field, " must be a finite number of at least 0, and is ", value));
    }
  };
  at_least_0("base_lr", s.base_lr());
  at_least_0("min_lr", s.min_lr());
  at_least_0("warmup_iter", s.warmup_iter());
  at_least_0("warmup_start_lr", s.warmup_start_lr());
  if (s.min_lr() > s.base_lr()) Fail(s, "min_lr", StrCat("min_lr ", s.min_lr(), " is above base_lr ", s.base_lr()));
  if (s.lr_policy() == "step" && s.stepsize() <= 0) {
    Fail(s, "stepsize", StrCat("lr_policy \"step\" needs a stepsize of at least 1, and it is ", s.stepsize()));
  }
  if ((s.lr_policy() == "poly" || s.lr_policy() == "cosine") && s.max_iter() <= 0) {
    Fail(s, "max_iter",
         StrCat("lr_policy \"", s.lr_policy(), "\" needs a max_iter of at least 1, and it is ", s.max_iter()));
  }
  for (int i = 1; i < s.stepvalue_size(); ++i) {
    if (s.stepvalue(i) > s.stepvalue(i - 1)) continue;
    Fail(s, StrCat("stepvalue[", i, "]"),
         StrCat("stepvalue must ascend, and ", s.stepvalue(i), " follows ", s.stepvalue(i - 1)));
  }
}

}  // namespace

const std::vector<std::string>& LrPolicies() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const LrPolicy& policy : Table()) names.push_back(policy.name);
    return names;
  }();
  return kNames;
}

void CheckLrPolicy(const SolverParameter& solver) {
  if (!solver.has_base_lr())
    Fail(solver, "", "the solver has no base_lr", "give the learning rate, such as base_lr: 0.01");
  if (!solver.has_lr_policy()) {
    Fail(solver, "", "the solver has no lr_policy", StrCat("known are ", Join(LrPolicies(), ", ")));
  }
  const LrPolicy* policy = FindPolicy(solver.lr_policy());
  if (policy == nullptr) {
    std::string hint = DidYouMean(solver.lr_policy(), LrPolicies());
    if (hint.empty()) hint = StrCat("known are ", Join(LrPolicies(), ", "));
    Fail(solver, "lr_policy", StrCat("unknown lr_policy \"", solver.lr_policy(), "\""), hint);
  }
  for (const std::string& field : policy->needs) {
    if (!IsGiven(solver, field)) {
      Fail(solver, "lr_policy", StrCat("lr_policy \"", policy->name, "\" needs ", field, ", which is not given"));
    }
  }
  CheckNumbers(solver);
}

double LearningRate(const SolverParameter& solver, int64_t iter) {
  const LrPolicy* policy = FindPolicy(solver.lr_policy());
  Require(policy != nullptr, "LearningRate: CheckLrPolicy passed");
  const auto rate = [&](int64_t i) { return std::max(policy->rate(solver, i), double{solver.min_lr()}); };
  const int64_t warmup = solver.warmup_iter();
  if (iter >= warmup) return rate(iter);
  const double start = solver.warmup_start_lr();
  return start + (rate(warmup) - start) * static_cast<double>(iter) / static_cast<double>(warmup);
}

}  // namespace moka
