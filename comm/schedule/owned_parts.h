// Schedules beside all-reduce: its halves where every value has an owner, who gets the sums and gives back what it
// makes of them; sums in groups of ranks; and parts that go from all to all.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule/schedule.h"

namespace moka {

// bounds[r] to bounds[r + 1]: the elements that rank r owns. Both: one round, in which a rank sends and receives all
// that is not its own at most once; sums are in the order of ranks.
// After the first every rank holds the sums of what it owns and nothing of use elsewhere.
Schedule ReduceToOwners(int rank, std::vector<int64_t> bounds);
// After the second every rank holds what the owners held.
Schedule GatherFromOwners(int rank, std::vector<int64_t> bounds);

// All-to-all in one round over a message of two halves, what is sent and what comes: `sent` has the bounds of what goes
// to each rank, or two numbers where all of it goes to every rank; `received` those of what comes from each, or two
// where it is added up, in the order of ranks, to what lies there. Both count from 0.
Schedule ExchangeParts(int rank, int ranks, const std::vector<int64_t>& sent, const std::vector<int64_t>& received);

// The sum over the `group` neighbouring ranks that this one is of, in one round: for short messages.
Schedule SumInGroup(int rank, int ranks, int group);

}  // namespace moka
