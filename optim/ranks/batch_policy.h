// The batch that several ranks train on: the net's batch sizes are of all ranks together, so that a recipe stays what
// it is whatever the number of ranks ("global"), or of each rank ("per_rank"), which makes the batch larger with every
// rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "proto/moka.pb.h"

namespace moka {

struct BatchPolicy {
  int64_t ranks = 1;
  int64_t of_rank = 0;    // samples a rank takes at once
  int64_t iter_size = 1;  // batches an iteration
  bool is_global = true;

  int64_t of_all() const { return of_rank * ranks * iter_size; }
  // For the log: "batch 256 = 4 ranks x 64"; with "per_rank" also the rate that the linear rule (Goyal et al.,
  // "Accurate, large minibatch SGD", 2017) makes of `base_lr`.
  std::string Describe(double base_lr) const;
  // For the log: epochs and warm-up of the solver's max_iter where the data have `records` (0: they have no end), the
  // rates at both ends, and what base_lr is by the linear rule for 256 samples, so that recipes of different batches
  // compare. Requires: CheckLrPolicy passed.
  std::string DescribeSchedule(const SolverParameter& solver, int64_t records) const;
};

// Errors: kConfig at solver.distributed.batch unless it is "global" or "per_rank".
bool HasGlobalBatch(const SolverParameter& solver);

// The net as one of `ranks` ranks trains it: filtered for its state, with each data layer's batch_size, or first
// dimension of DummyData, divided by the ranks. Errors: kConfig at a batch size that does not divide, naming the
// nearest that do. `parts`: what the error calls them. Constants of DummyData have a batch where their first dimension
// is that of other data; `builds` is asked where it may be so by chance (a matrix of as many classes).
NetParameter NetOfRank(const NetParameter& net, int64_t ranks, const std::string& parts = "ranks",
                       const std::function<bool(const NetParameter&)>& builds = {});
// The net, filtered, with data layers of `batch` samples each. Constants of DummyData as above. Errors: kConfig when
// the batches of its data layers differ.
NetParameter WithBatch(const NetParameter& net, int64_t batch);

// The net with the number of ranks in each BatchNorm's sync_ranks that is 0 (all). Errors: kConfig at one that does not
// divide the ranks.
NetParameter WithSyncedNorms(const NetParameter& net, int64_t ranks);
// Whether statistics of any batch norm are of several ranks.
bool HasSyncedNorms(const NetParameter& net);

}  // namespace moka
