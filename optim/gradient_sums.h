// Sums over all gradients of a step, in the graph: the clipping norm, the search for values that are not finite.
#pragma once

#include <span>
#include <string>

#include "graph/graph.h"

namespace moka {

// A scalar: the sum over every element x0 of every gradient of an expression of x0 and, if given, a scalar x1. kNoId if
// there is no gradient.
ValueId SumOverGradients(const GraphBuilder& b, std::span<const ValueId> gradients, const std::string& expression,
                         ValueId scalar = kNoId);

}  // namespace moka
