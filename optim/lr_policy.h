// The learning rate as a pure function of (solver, iteration): nothing to store, nothing to restore on resume. Policies
// and formulas are Caffe's (SGDSolver::GetLearningRate), plus cosine (Loshchilov & Hutter, "SGDR", ICLR 2017, one
// period) and a linear warm-up (Goyal et al., "Accurate, large minibatch SGD", 2017).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// fixed, step, exp, inv, multistep, poly, sigmoid, cosine; sorted.
const std::vector<std::string>& LrPolicies();

// Errors: kConfig at the solver's field when the policy is unknown or a field it needs is missing or out of range.
void CheckLrPolicy(const SolverParameter& solver);

// The rate of the update made in iteration `iter` (from 0), before any parameter's lr_mult. poly and cosine stay at
// min_lr beyond max_iter; other policies never go below min_lr. During the first warmup_iter iterations the rate goes
// in a straight line from warmup_start_lr to the policy's rate at warmup_iter. Requires: CheckLrPolicy passed.
double LearningRate(const SolverParameter& solver, int64_t iter);

}  // namespace moka
