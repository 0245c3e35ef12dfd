// Recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// 2005): in round i all of the message is exchanged with the rank at distance P / 2^(i+1). log2 P rounds; a rank sends
// log2 P messages: the least latency. Of P = 2^k + e ranks e pairs are folded: 3 more rounds, at most 3/2 messages
// more.
#include "comm/algorithms/algorithm.h"
#include "comm/algorithms/folding.h"

namespace moka {
namespace {

Schedule MakeRecursiveDoubling(const Arrangement& arrangement, int rank) {
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = 2};
  const Folding folding(arrangement.ranks);
  folding.Open(schedule);
  if (const int own = folding.VirtualOf(rank); own >= 0) {
    for (int distance = folding.power / 2; distance >= 1; distance /= 2) {
      const int peer = folding.RankOf(own ^ distance);
      schedule.rounds.push_back({.sends = {{.peer = peer, .first = 0, .count = 2}},
                                 .receives = {{.peer = peer, .first = 0, .count = 2, .adds = true}}});
    }
  }
  folding.Close(schedule);
  return schedule;
}

}  // namespace

AllReduceAlgorithm RecursiveDoublingAllReduce() {
  return {.name = "recursive_doubling",
          .doc = "log2 P exchanges of the whole message: the least latency",
          .has_fixed_order = true,
          .refuse = RefuseNone,
          .make = MakeRecursiveDoubling};
}

}  // namespace moka
