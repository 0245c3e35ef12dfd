// Reverse-mode differentiation as a graph-to-graph rewrite: gradients are ordinary nodes made by each op's rule.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace moka {

// Adds nodes that compute dLoss/dw for each w of `wrt` and returns their values (kNoId where no path from w reaches the
// loss). Only nodes on a path from a wanted value to the loss get backward nodes. Where paths meet there is one n-ary
// sum. `seed` is a scalar that all gradients come multiplied by (a loss scale); kNoId: 1. Requires: loss is a scalar.
std::vector<ValueId> Differentiate(Graph& graph, ValueId loss, std::span<const ValueId> wrt, ValueId seed = kNoId);

}  // namespace moka
