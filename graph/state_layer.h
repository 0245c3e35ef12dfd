// The layer that a state of a graph belongs to.
#pragma once

#include <string>

#include "graph/graph.h"

namespace moka {

// The layer that a state is of: of a weight the one that has it as a blob, or reads it first; of a slot that of its
// weight; empty if no node tells.
std::string LayerOfState(const Graph& graph, ValueId state);

}  // namespace moka
