// The table of optimisers: a row names one, checks its solver fields and writes a parameter's update in terms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "optim/optimizers/parameter_update.h"
#include "optim/optimizers/solver_checks.h"

namespace moka {

struct Optimizer {
  std::string name;                                 // SolverParameter.type
  std::vector<std::string> slots;                   // in the order Caffe's .solverstate has them
  std::vector<std::string> fields = {};             // of the solver that it reads beside momentum and decay
  bool is_of_caffe = true;                          // Caffe has it and reads its .solverstate
  bool decays_apart = false;                        // the decay is no part of the gradient, so no decay of groups is
  void (*check)(const SolverParameter&) = nullptr;  // beside the ranges of numbers; null: nothing
  void (*emit)(ParameterUpdate&) = nullptr;
};

// The rows of this build in no order that matters: every function `Optimizer NAME()` (tools/cmake/moka_rows.cmake).
std::vector<Optimizer> OptimizerRows();
// All, sorted by name.
const std::vector<Optimizer>& Optimizers();
// Null if unknown.
const Optimizer* FindOptimizer(std::string_view name);

}  // namespace moka
