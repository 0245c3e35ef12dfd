// The order of steps. One stream: a topological order in which what reads a state's old value runs before what
// overwrites it, and gradients are turned into updates as soon as they exist, so their memory is free again.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moka {

struct Schedule {
  std::vector<NodeId> constants;  // run once (Program::RefreshConstants)
  std::vector<NodeId> steps;      // run each time
  // For each assignment, whether the new value may be written straight over the state; otherwise it is copied after the
  // last step.
  std::vector<bool> in_place;
};

// `constant` is indexed by NodeId (ConstantNodes).
Schedule MakeSchedule(const Graph& graph, const std::vector<bool>& constant);

}  // namespace moka
