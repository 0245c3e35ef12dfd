// Optimisers as graph builders: each parameter's update is one multi-output pointwise node over the weight, its
// gradient and its slots, assigned back to states of the ParameterStore. Order inside one update is Caffe's: clip by
// the global L2 norm, divide by iter_size, add the decay, apply the rule of the solver, subtract. Rates that change
// from iteration to iteration are rank-0 float32 inputs of the graph, computed by the host in double (UpdateInput).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "layers/net/layer.h"
#include "optim/optimizers/loss_scale.h"
#include "optim/optimizers/update_slots.h"
#include "proto/moka.pb.h"

namespace moka {

struct UpdateSpec {
  const SolverParameter* solver = nullptr;
  std::vector<NetBlob> blobs;      // each once; their states are in the graph
  std::vector<ValueId> gradients;  // dLoss/dw of each blob; kNoId: the loss does not reach it, it is left alone
  // A scalar (the loss): when it is not finite every state keeps its value. kNoId: no guard.
  ValueId guard = kNoId;
  double gradient_scale = 1;  // every gradient is multiplied by it first
  ValueId unscale = kNoId;    // and by this scalar, before anything is squared: 1 / the loss scale; kNoId: 1
  // The net of the blobs, for what its layers ask of their updates (optim/optimizers/groups.h); null: nothing.
  const NetParameter* net = nullptr;
  // Blobs whose gradients come with momentum in them while the input "gradient_momentum" is 0: momentum correction of
  // deep gradient compression (Lin et al., ICLR 2018). SGD's history is then the decay's alone.
  std::vector<std::string> corrected = {};
  SplitNorms split = {};
};

// Errors: kConfig at the solver's field: unknown type (nearest named), values out of range, combinations Caffe refuses.
void CheckOptimizer(const SolverParameter& solver);

// The blobs an optimiser trains, each once: not shared, lr_mult > 0, no statistics.
std::vector<NetBlob> TrainedBlobs(std::span<const NetBlob> blobs);
// Running statistics that are not shared.
std::vector<NetBlob> StatisticBlobs(std::span<const NetBlob> blobs);

// Adds slots, updates and assignments. Requires: CheckOptimizer passed.
Updates AddUpdates(Graph& graph, const UpdateSpec& spec);

// Value of scalar input `name` in iteration `iter` (from 0): "lr"; "bias1" = 1 - momentum^(iter+1); "bias2" = 1 -
// momentum2^(iter+1); "gradient_momentum" = 1 before compression's start_iter, then 0; "ema_decay" = min(ema_decay,
// (1+iter)/(10+iter)), so a short run does not remember its start.
double UpdateInput(const SolverParameter& solver, std::string_view name, int64_t iter, int plateau_step = 0);
// Whether `iter` of the input is a count of the parameter's own updates (Adam's corrections, the mean of the weights)
// and not the place in the training: they differ in turns of several steps.
bool CountsUpdates(std::string_view name);

// Assignments already in the graph (running statistics) keep the old value when the scalar guard is not finite.
void GuardAssignments(Graph& graph, ValueId guard);

// iter_size > 1, first half: the program of a micro-batch adds its gradients to the "@sum" states.
std::vector<SlotState> AddAccumulation(Graph& graph, std::span<const NetBlob> blobs,
                                       std::span<const ValueId> gradients);

// iter_size > 1, second half: a graph that updates the blobs from the "@sum" states and zeroes those. It has a scalar
// input "guard" (the sum of the micro-batches' losses). The slots returned include the sums. `over_ranks` may put what
// several ranks sum in place of the gradients and the guard; the gradients are then multiplied by `gradient_scale`.
struct UpdateGraph {
  Graph graph;
  Updates updates;
};
using OverRanks = std::function<void(Graph&, std::vector<ValueId>& gradients, ValueId& loss)>;
UpdateGraph BuildUpdateGraph(const Catalog& catalog, const SolverParameter& solver, std::span<const NetBlob> blobs,
                             const NetParameter* net = nullptr, const LossScaling& scaling = {},
                             const OverRanks& over_ranks = {}, double gradient_scale = 1,
                             const std::vector<std::string>& corrected = {});

}  // namespace moka
