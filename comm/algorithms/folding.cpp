// Folding for P that is no power of two (Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004):
// with 2^k the largest power in P, the first 2 (P - 2^k) ranks go in pairs. A pair adds up half of the message each,
// the odd rank hands its half over and rests, and gets the sums in a closing round: three rounds and two messages'
// bytes more for these ranks.
#include "comm/algorithms/folding.h"

#include <bit>

namespace moka {

Folding::Folding(int ranks)
    : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), extra(ranks - power) {}

int Folding::VirtualOf(int rank) const {
  if (rank >= 2 * extra) return rank - extra;
  return rank % 2 == 0 ? rank / 2 : -1;
}

int Folding::RankOf(int virtual_rank) const { return virtual_rank < extra ? 2 * virtual_rank : virtual_rank + extra; }

void Folding::Open(Schedule& schedule) const {
  const int rank = schedule.rank;
  if (rank >= 2 * extra) return;
  const int64_t half = schedule.chunks / 2;
  const bool is_even = rank % 2 == 0;
  const int other = is_even ? rank + 1 : rank - 1;
  const int64_t own = is_even ? 0 : half;
  const int64_t given = half - own;
  schedule.rounds.push_back({.sends = {{.peer = other, .first = given, .count = half}},
                             .receives = {{.peer = other, .first = own, .count = half, .adds = true}}});
  if (is_even) {
    schedule.rounds.push_back({.receives = {{.peer = other, .first = half, .count = half}}});
  } else {
    schedule.rounds.push_back({.sends = {{.peer = other, .first = half, .count = half}}});
  }
}

void Folding::Close(Schedule& schedule) const {
  const int rank = schedule.rank;
  if (rank >= 2 * extra) return;
  if (rank % 2 == 0) {
    schedule.rounds.push_back({.sends = {{.peer = rank + 1, .first = 0, .count = schedule.chunks}}});
  } else {
    schedule.rounds.push_back({.receives = {{.peer = rank - 1, .first = 0, .count = schedule.chunks}}});
  }
}

}  // namespace moka
