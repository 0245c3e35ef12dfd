// Star: rank 0 gets all messages at once, sums them in the order of ranks and gives the sum to all. 2 rounds; rank 0
// sends P-1 messages, any other rank one: what a parameter server would do, as the case that others are measured by.
#include "comm/algorithms/algorithm.h"

namespace moka {
namespace {

Schedule MakeStar(const Arrangement& arrangement, int rank) {
  Schedule schedule{.rank = rank, .size = arrangement.ranks};
  if (arrangement.ranks == 1) return schedule;
  Round gather;
  Round spread;
  if (rank != 0) {
    gather.sends = {{.peer = 0}};
    spread.receives = {{.peer = 0}};
  }
  for (int peer = 1; rank == 0 && peer < arrangement.ranks; ++peer) {
    gather.receives.push_back({.peer = peer, .adds = true});
    spread.sends.push_back({.peer = peer});
  }
  schedule.rounds = {gather, spread};
  return schedule;
}

}  // namespace

AllReduceAlgorithm StarAllReduce() {
  return {.name = "star",
          .doc = "rank 0 sums all messages and gives the sum to all: the fewest rounds, the busiest link",
          .has_fixed_order = true,
          .refuse = RefuseNone,
          .make = MakeStar};
}

}  // namespace moka
