// Recursive halving and doubling (Rabenseifner, "Optimization of collective reduction operations", 2004): a
// reduce-scatter that exchanges halves, quarters, ... and an all-gather in reverse. 2 log2 P rounds; a rank sends
// 2 (P-1)/P of the message. Of P = 2^k + e ranks e pairs are folded: 3 more rounds, and at most 3/2 messages more.
#include "comm/algorithms/folding.h"
#include "comm/algorithms/parts.h"

namespace moka {
namespace {

// Virtual rank v ends the halving with chunk v: the highest bit chose the first half.
void AddHalving(const Folding& folding, int own, Schedule& schedule) {
  const int64_t each = schedule.chunks / folding.power;
  for (int distance = folding.power / 2; distance >= 1; distance /= 2) {
    const int peer = own ^ distance;
    const int64_t kept = (own & ~(distance - 1)) * each;
    const int64_t given = (peer & ~(distance - 1)) * each;
    schedule.rounds.push_back(
        {.sends = {{.peer = folding.RankOf(peer), .first = given, .count = distance * each}},
         .receives = {{.peer = folding.RankOf(peer), .first = kept, .count = distance * each, .adds = true}}});
  }
}

void AddDoubling(const Folding& folding, int own, Schedule& schedule) {
  const int64_t each = schedule.chunks / folding.power;
  for (int distance = 1; distance < folding.power; distance *= 2) {
    const int peer = own ^ distance;
    const int64_t held = (own & ~(distance - 1)) * each;
    const int64_t missing = (peer & ~(distance - 1)) * each;
    schedule.rounds.push_back(
        {.sends = {{.peer = folding.RankOf(peer), .first = held, .count = distance * each}},
         .receives = {{.peer = folding.RankOf(peer), .first = missing, .count = distance * each}}});
  }
}

Schedule MakeHalvingDoubling(const Arrangement& arrangement, int rank) {
  const Folding folding(arrangement.ranks);
  Schedule schedule{.rank = rank, .size = arrangement.ranks, .chunks = 2 * folding.power};
  folding.Open(schedule);
  if (const int own = folding.VirtualOf(rank); own >= 0) {
    AddHalving(folding, own, schedule);
    AddDoubling(folding, own, schedule);
  }
  folding.Close(schedule);
  return schedule;
}

}  // namespace

AllReduceAlgorithm HalvingDoublingAllReduce() {
  return {.name = "halving_doubling",
          .doc = "exchanges of halves, quarters, ... and back: the fewest bytes in 2 log2 P steps",
          .has_fixed_order = true,
          .refuse = RefuseNone,
          .make = MakeHalvingDoubling};
}

}  // namespace moka
