// Sums over all gradients of a step, in the graph: the clipping norm, the search for values that are not finite.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/term.h"

namespace moka {

// A scalar: the sum over every element of every gradient of a term of it (input 0) and, if given, a scalar (input 1).
// kNoId if there is no gradient.
ValueId SumOverGradients(const GraphBuilder& b, std::span<const ValueId> gradients, const Term& term,
                         ValueId scalar = kNoId);
// The sum of scalars. Requires: there are some.
ValueId SumOfScalars(const GraphBuilder& b, std::vector<ValueId> scalars);

}  // namespace moka
