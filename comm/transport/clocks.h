// One time scale for what the ranks of a training record: each measures how far its clock is from the first rank's by
// exchanging messages (Cristian, "Probabilistic clock synchronization", 1989). Of several round trips the shortest
// counts; the truth is within half of it, since the first rank read its clock between the sending and the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/transport/communicator.h"
#include "core/clock_offset.h"

namespace moka {

struct RankClock {
  std::string id;  // processes with the same one read the same clock; empty: nobody else does
  std::function<int64_t()> now;
};
// NowMicros. All processes between two starts of a machine read the same clock, whatever host they call themselves.
RankClock ClockOfThisMachine();

// All ranks. An offset of 0 with an error of 0 for those that read the first rank's clock. It takes 16 round trips a
// rank that does not, one rank after the other. Errors: kPeer.
ClockOffset MeasureClock(Communicator& world, const RankClock& clock = ClockOfThisMachine());

}  // namespace moka
