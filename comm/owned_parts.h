// Schedules beside all-reduce: its halves where every value has an owner, who gets the sums and gives back what it
// makes of them; and sums in groups of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule.h"

namespace moka {

// bounds[r] to bounds[r + 1]: the elements that rank r owns. Both: one round, in which a rank sends and receives all
// that is not its own at most once; sums are in the order of ranks.
// After the first every rank holds the sums of what it owns and nothing of use elsewhere.
Schedule ReduceToOwners(int rank, std::vector<int64_t> bounds);
// After the second every rank holds what the owners held.
Schedule GatherFromOwners(int rank, std::vector<int64_t> bounds);

// The sum over the `group` neighbouring ranks that this one is of, in one round: for short messages.
Schedule SumInGroup(int rank, int ranks, int group);

}  // namespace moka
