// Follows each algorithm's schedule once in virtual time and takes its curve, so that planners cannot tell it from a
// measured one.
#include "comm/simulate/virtual_costs.h"

#include <vector>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/simulate/virtual_time.h"

namespace moka {
namespace {

constexpr int kMostFollowed = 1024;  // in pieces: their ranks all differ, and more of them take many seconds

}  // namespace

CostTable VirtualCosts(const Topology& topology, int devices, std::string_view algorithm, int64_t bytes_per_element) {
  const std::vector<AllReduceChoice> choices =
      algorithm == "auto"
          ? AllReduceChoices(devices, topology.devices_per_node)
          : std::vector<AllReduceChoice>{ChoiceOfAllReduce(algorithm, devices, topology.devices_per_node)};
  CostTable table;
  for (const AllReduceChoice& choice : choices) {
    if (algorithm == "auto" && choice.algorithm->has_pieces && devices > kMostFollowed) continue;
    const VirtualSchedule schedule = VirtualSchedule::Of(*choice.algorithm, choice.arrangement, topology);
    table.Add(choice.name, CurveOf(schedule, bytes_per_element));
  }
  return table;
}

}  // namespace moka
