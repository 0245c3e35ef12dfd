// Ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): P-1 rounds pass partial sums on to the
// next rank, P-1 more pass the sums. 2 (P-1) rounds; a rank sends 2 (P-1)/P of the message, which is the least there
// is.
#include "comm/algorithms/parts.h"

namespace moka {
namespace {

Schedule MakeRing(const Arrangement& arrangement, int rank) {
  const int ranks = arrangement.ranks;
  Schedule schedule{.rank = rank, .size = ranks, .chunks = ranks};
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  for (int step = 0; step < 2 * (ranks - 1); ++step) {
    // Chunk c begins its way at rank c + 1 and ends it, summed, at rank c.
    const int64_t sent = ((rank - 1 - step) % ranks + 2 * ranks) % ranks;
    const int64_t received = ((rank - 2 - step) % ranks + 2 * ranks) % ranks;
    schedule.rounds.push_back({.sends = {{.peer = next, .first = sent}},
                               .receives = {{.peer = before, .first = received, .adds = step < ranks - 1}}});
  }
  return schedule;
}

}  // namespace

AllReduceAlgorithm RingAllReduce() {
  return {.name = "ring",
          .doc = "partial sums, then sums, go round the ranks: the fewest bytes, 2 (P-1) steps",
          .refuse = RefuseNone,
          .make = MakeRing};
}

}  // namespace moka
