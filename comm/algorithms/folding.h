// Algorithms for powers of two on any number of ranks: pairs of ranks go together until a power of two is left.
#pragma once

#include "comm/schedule/schedule.h"

namespace moka {

// The 2e first ranks of P = 2^k + e are pairs whose even rank takes part for both. Virtual ranks 0 .. 2^k - 1.
struct Folding {
  explicit Folding(int ranks);
  int power = 1;  // 2^k
  int extra = 0;  // e
  // -1 for the odd rank of a pair.
  int VirtualOf(int rank) const;
  int RankOf(int virtual_rank) const;

  // Rounds before: each of a pair sums one half of the message (as Open MPI does, nobody sends all of it), then the
  // even rank gets the other half. Rounds after: it gives the odd one the result. Requires: schedule.chunks is even.
  void Open(Schedule& schedule) const;
  void Close(Schedule& schedule) const;
};

}  // namespace moka
