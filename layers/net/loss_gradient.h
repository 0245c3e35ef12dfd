// Tells what a top's loss_weight trains.
#pragma once

#include <set>
#include <span>

#include "graph/graph.h"

namespace moka {

// Whether the gradient of a loss reaches any of the values. The graph is a copy, as differentiating adds nodes.
bool GradientReaches(Graph graph, ValueId loss, std::span<const ValueId> values);

// Whether any of `sources` goes into the value.
bool DependsOn(const Graph& graph, ValueId value, const std::set<ValueId>& sources);

}  // namespace moka
