// Three phases over groups of k ranks (Jia et al., "Highly scalable deep learning training system with mixed-precision:
// training ImageNet in four minutes", 2018): each group's ranks give their values to its first, the P/k first ranks run
// a ring among themselves, and each gives the sums to its group. 2 (P/k - 1) + 2 rounds here, where a group's ranks
// send at once; with a link of its own for each step the published count is 4 (k-1) + 2 (P/k - 1). Only the first ranks
// use the network: a first rank sends (k-1) messages inside its group and 2 (G-1)/G of one across, G = P/k.
#include "comm/algorithms/embedding.h"
#include "comm/algorithms/parts.h"

namespace moka {
namespace {

Schedule MakeHierarchical(const Arrangement& arrangement, int rank) {
  const int group = arrangement.group;
  const int groups = arrangement.ranks / group;
  const int place = rank % group;
  const int first = rank - place;
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = groups};
  Round gather;
  Round scatter;
  if (place != 0) {
    gather.sends.push_back({.peer = first, .first = 0, .count = groups});
    scatter.receives.push_back({.peer = first, .first = 0, .count = groups});
    schedule.rounds = {gather, scatter};
    return schedule;
  }
  for (int peer = first + 1; peer < first + group; ++peer) {
    gather.receives.push_back({.peer = peer, .first = 0, .count = groups, .adds = true});
    scatter.sends.push_back({.peer = peer, .first = 0, .count = groups});
  }
  schedule.rounds.push_back(gather);
  Embed(
      RingAllReduce().make({.ranks = groups}, rank / group), [&](int peer) { return peer * group; }, 0, 1, schedule);
  schedule.rounds.push_back(scatter);
  return schedule;
}

}  // namespace

AllReduceAlgorithm HierarchicalAllReduce() {
  return {.name = "hierarchical",
          .doc = "to the first rank of each group, a ring of the first ranks, and back into the groups",
          .has_groups = true,
          .refuse = RefuseGroups,
          .make = MakeHierarchical};
}

}  // namespace moka
