// Two levels (as Horovod's hierarchical all-reduce and Cho et al., "BlueConnect", 2019, for two dimensions): inside
// each group of k ranks a reduce-scatter, then an all-reduce of each shard among the ranks of one place in all G = P/k
// groups, then an all-gather inside the group. Every rank of a host drives the network for its shard. Inside the group
// both are direct exchanges (its ranks share memory): 2 rounds; across the groups halving and doubling: 2 log2 G
// rounds, 3 more where G is no power of two. A rank sends 2 (k-1)/k of the message inside its group and 2 (G-1)/G / k
// of it across.
#include "comm/algorithms/embedding.h"
#include "comm/algorithms/parts.h"

namespace moka {
namespace {

Schedule MakeTwoLevel(const Arrangement& arrangement, int rank) {
  const int group = arrangement.group;
  const int place = rank % group;
  const int base = rank - place;
  const Schedule inside = DirectAllReduce().make({.ranks = group}, place);
  const Schedule across = HalvingDoublingAllReduce().make({.ranks = arrangement.ranks / group}, rank / group);
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = group * across.chunks};
  const auto in_group = [&](int peer) { return base + peer; };
  const auto add_inside = [&](size_t round) {
    if (inside.rounds.empty()) return;
    Embed({.rounds = {inside.rounds[round]}}, in_group, 0, across.chunks, schedule);
  };
  add_inside(0);
  Embed(
      across, [&](int peer) { return peer * group + place; }, place * across.chunks, 1, schedule);
  add_inside(1);
  return schedule;
}

}  // namespace

AllReduceAlgorithm TwoLevelAllReduce() {
  return {.name = "two_level",
          .doc = "reduce-scatter inside groups, all-reduce of the shards across them, all-gather inside",
          .has_fixed_order = true,
          .has_groups = true,
          .refuse = RefuseGroups,
          .make = MakeTwoLevel};
}

}  // namespace moka
