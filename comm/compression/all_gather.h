// Every rank's part to all: the message has a part of equal length for each rank, chunk r is rank r's. Bits travel as
// they are with Wire::kFloat32, since nothing is added.
#pragma once

#include "comm/schedule/schedule.h"

namespace moka {

// A part begins where a schedule's chunk does: its floats are a multiple of this.
inline constexpr int64_t kPartFloats = 16;

// One round: each sends its part to all others, P - 1 parts in all.
Schedule AllGatherSchedule(int rank, int ranks);

}  // namespace moka
