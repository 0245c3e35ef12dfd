// An all-gather in one round: every rank sends its part to all others directly. Payloads are small once compressed, so
// the round's latency counts and a ring's P - 1 rounds would not pay.
#include "comm/compression/all_gather.h"

namespace moka {

Schedule AllGatherSchedule(int rank, int ranks) {
  Schedule schedule{.rank = rank, .size = ranks, .chunks = ranks};
  Round round;
  for (int step = 1; step < ranks; ++step) {  // each rank begins with another peer
    const int peer = (rank + step) % ranks;
    round.sends.push_back({.peer = peer, .first = rank});
    round.receives.push_back({.peer = peer, .first = peer});
  }
  if (ranks > 1) schedule.rounds.push_back(round);
  return schedule;
}

}  // namespace moka
