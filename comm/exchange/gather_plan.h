// Plans which weights travel together when they are gathered from their owners for the next forward pass. They go in
// the order in which that pass reads them, one bucket behind the other, all from its beginning; a bucket is to be there
// when the first of its weights is read. Seen from its end that is a backward pass whose gradients are summed: what is
// needed late is ready early, a bucket's last comes first, and the time for which the pass stands still is what a
// backward pass leaves exposed. So the planners of comm/exchange/fusion_plan.h plan it.
#pragma once

#include <span>
#include <string_view>

#include "comm/exchange/fusion_plan.h"

namespace moka {

// A plan for gradients of which the last needed_s.size() are gathered: needed_s, ascending, is when each is read, from
// the first read on. No bucket has both summed and gathered ones. Requires and Errors: those of PlanFusion.
FusionPlan PlanWithGathers(std::string_view planner, const FusionInput& input, std::span<const double> needed_s,
                           const CostTable& costs, int64_t bucket_bytes);

}  // namespace moka
