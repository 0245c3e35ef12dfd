// The three phases of hierarchical.cpp in the steps the paper counts, 4 (k-1) + 2 (P/k - 1): a group's ranks sum by a
// ring and give each its k-th part to the first rank, the first ranks run a ring among themselves, and the parts go
// back the same way. No link of a device carries more than about the message itself each way, where the first rank of
// hierarchical.cpp takes in k - 1 of them: for devices with a link each instead of shared memory. 2 k + 2 (G-1) rounds,
// G = P/k; a first rank sends 3 (k-1)/k of the message inside its group and 2 (G-1)/G across.
#include "comm/algorithms/embedding.h"
#include "comm/algorithms/parts.h"

namespace moka {
namespace {

Schedule MakeHierarchicalRing(const Arrangement& arrangement, int rank) {
  const int group = arrangement.group;
  const int groups = arrangement.ranks / group;
  const int place = rank % group;
  const int first = rank - place;
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = int64_t{group} * groups};
  const Schedule ring = RingAllReduce().make({.ranks = group}, place);
  const auto half = ring.rounds.begin() + (group - 1);
  const auto in_group = [&](int peer) { return first + peer; };
  Embed({.rounds = {ring.rounds.begin(), half}}, in_group, 0, groups, schedule);
  // Parts [1, k) go to the first rank and back; every other rank has one of them.
  Round gather;
  Round scatter;
  for (int owner = 1; owner < group; ++owner) {
    Transfer part{.peer = first, .first = int64_t{owner} * groups, .count = groups};
    if (place == owner) {
      gather.sends.push_back(part);
      scatter.receives.push_back(part);
    } else if (place == 0) {
      part.peer = first + owner;
      gather.receives.push_back(part);
      scatter.sends.push_back(part);
    }
  }
  schedule.rounds.push_back(gather);
  if (place == 0) {
    Embed(
        RingAllReduce().make({.ranks = groups}, rank / group), [&](int peer) { return peer * group; }, 0, group,
        schedule);
  }
  schedule.rounds.push_back(scatter);
  Embed({.rounds = {half, ring.rounds.end()}}, in_group, 0, groups, schedule);
  return schedule;
}

}  // namespace

AllReduceAlgorithm HierarchicalRingAllReduce() {
  return {.name = "hierarchical_ring",
          .doc = "the same with rings inside the groups: for devices with a link each",
          .has_groups = true,
          .refuse = RefuseGroups,
          .make = MakeHierarchicalRing};
}

}  // namespace moka
