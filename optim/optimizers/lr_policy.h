// The learning rate as a pure function of (solver, iteration), but for plateau, which follows the loss and keeps a
// state. Policies and formulas are those of Caffe and its forks (SGDSolver::GetLearningRate): plateau of SSD,
// multifixed and the linear warm-up of Intel (as in Goyal et al., "Accurate, large minibatch SGD", 2017), the quadratic
// ramp, momentum and decay policies of NVIDIA; plus cosine (Loshchilov & Hutter, "SGDR", ICLR 2017, one period).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// The names of all policies, sorted.
const std::vector<std::string>& LrPolicies();

// Errors: kConfig at the solver's field when the policy is unknown or a field it needs is missing or out of range.
void CheckLrPolicy(const SolverParameter& solver);

// The memory of lr_policy "plateau"; fields and meaning are those of a .solverstate.
struct PlateauState {
  double minimum_loss = 3.4028234663852886e38;  // FLT_MAX
  int64_t last_event = 0;                       // iteration of the last minimum or step
  int step = 0;                                 // times the rate was multiplied by gamma
  friend bool operator==(const PlateauState&, const PlateauState&) = default;
};
// Before iteration `iter`, with the smoothed loss of those before: the rate falls a step when the loss had no new
// minimum for plateau_winsize[step] iterations. Caffe looks at the loss of iteration `iter` as well; Moka's update is
// part of the same program as the loss, so a step comes one iteration later. Other policies change nothing.
void UpdatePlateau(const SolverParameter& solver, int64_t iter, double smoothed_loss, PlateauState& state);

// The rate of the update made in iteration `iter` (from 0), before any parameter's lr_mult. poly and cosine stay at
// min_lr beyond max_iter; other policies never go below min_lr. During the first warmup_iter iterations the rate goes
// in a straight line from warmup_start_lr to base_lr; during the first rampup_interval iterations it is rampup_lr +
// (base_lr - rampup_lr) * (iter/rampup_interval)^2. With policy_after_warmup the policy counts from the end of these,
// WarmupEnd, so that it starts at base_lr, and poly and cosine still reach min_lr at max_iter. Requires: CheckLrPolicy
// passed.
double LearningRate(const SolverParameter& solver, int64_t iter, int plateau_step = 0);

// The momentum of iteration `iter` by momentum_policy (fixed, poly, opt), and the weight decay by weight_decay_policy
// (fixed, poly). Requires: CheckLrPolicy passed.
double MomentumAt(const SolverParameter& solver, int64_t iter);
double WeightDecayAt(const SolverParameter& solver, int64_t iter);

}  // namespace moka
