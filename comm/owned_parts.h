// The halves of an all-reduce where every value has an owner: sums go to it, and what it makes of them comes back.
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

}  // namespace moka
