// Direct exchange: every rank gets its chunk from all others at once, sums it in the order of ranks, and gives the sum
// to all. 2 rounds; a rank sends 2 (P-1)/P of the message, in P-1 pieces each way: for ranks that share memory, where a
// piece costs little and each value is read once.
#include "comm/algorithms/algorithms.h"

namespace moka {
namespace {

Schedule MakeDirect(const Arrangement& arrangement, int rank) {
  const int ranks = arrangement.ranks;
  Schedule schedule{.rank = rank, .size = ranks, .chunks = ranks};
  if (ranks == 1) return schedule;
  Round scatter;
  Round gather;
  for (int step = 1; step < ranks; ++step) {  // each rank begins with another peer
    const int to = (rank + step) % ranks;
    scatter.sends.push_back({.peer = to, .first = to});
    scatter.receives.push_back({.peer = to, .first = rank, .adds = true});
    gather.sends.push_back({.peer = to, .first = rank});
    gather.receives.push_back({.peer = to, .first = to});
  }
  schedule.rounds = {scatter, gather};
  return schedule;
}

}  // namespace

AllReduceAlgorithm DirectAllReduce() {
  return {.name = "direct",
          .doc = "every rank sums its part of the message from all others, then gives it to all: for one host",
          .has_fixed_order = true,
          .refuse = RefuseNone,
          .make = MakeDirect};
}

}  // namespace moka
