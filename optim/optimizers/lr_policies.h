// Rows of learning-rate policies: a function `LrPolicy NAME()`, or a list of several, in a file of their own, which the
// build finds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

struct LrPolicy {
  // A field that changes everything where it is not given: "it is 0 and the rate stays the same".
  struct Unset {
    std::string field;
    std::string outcome;
  };

  std::string name;                     // SolverParameter.lr_policy
  std::vector<std::string> reads = {};  // fields of the solver beside base_lr, min_lr and max_iter
  std::vector<std::string> needs = {};  // fields that must be given
  std::vector<Unset> unset = {};        // and those that should
  bool counts = true;                   // the rate depends on how many iterations have been
  bool has_end = false;                 // and reaches its end at max_iter
  // The rate, where iteration 0 is FirstOfPolicy.
  double (*rate)(const SolverParameter&, int64_t iter) = nullptr;
};

// The rows of this build in no order that matters (tools/cmake/moka_rows.cmake).
std::vector<LrPolicy> LrPolicyRows();
// Null if unknown.
const LrPolicy* FindLrPolicy(std::string_view name);

// The first iteration after warm-up and ramp; 0 without them.
inline int64_t WarmupEnd(const SolverParameter& s) { return std::max<int64_t>(s.warmup_iter(), s.rampup_interval()); }

// The iteration that a policy counts as 0.
inline int64_t FirstOfPolicy(const SolverParameter& s) { return s.policy_after_warmup() ? WarmupEnd(s) : 0; }

// Part of a policy's own iterations that is done, at most 1. Requires: has_end.
inline double PolicyProgress(const SolverParameter& s, int64_t iter) {
  return std::min(1.0, static_cast<double>(iter) / static_cast<double>(s.max_iter() - FirstOfPolicy(s)));
}

}  // namespace moka
