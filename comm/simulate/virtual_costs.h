// Cost curves of all-reduce algorithms on a simulated machine: what a start-up measurement would find there.
#pragma once

#include <string_view>

#include "comm/exchange/cost_curve.h"
#include "comm/simulate/topology.h"

namespace moka {

// algorithm: a name that ChoiceOfAllReduce reads, or "auto" for everything that AllReduceChoices lists, beyond 1,024
// devices without what goes in pieces (each rank would have to be followed; its name still does it). Errors: theirs,
// and those of VirtualSchedule::Of.
CostTable VirtualCosts(const Topology& topology, int devices, std::string_view algorithm, int64_t bytes_per_element);

}  // namespace moka
