// Proves what a set of schedules does before any of them runs: by following every chunk from rank to rank, without
// values.
#pragma once

#include <span>
#include <string>

#include "comm/schedule/schedule.h"

namespace moka {

// The schedules of all ranks of one all-reduce, by rank. Empty: every send meets its receive in the order of the pair's
// messages, no rank waits for ever, and in the end every chunk of every rank holds each rank's values exactly once;
// with `has_fixed_order` also that each chunk is the same sum of sums, whichever it is. Otherwise a sentence about the
// first thing that is wrong. Time and memory grow with ranks^2 * chunks / 64.
std::string CheckAllReduce(std::span<const Schedule> schedules, bool has_fixed_order);

}  // namespace moka
