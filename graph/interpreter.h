// Runs a graph by the references of its ops, in double: the meaning of a graph, for tests and gradient checks.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace moka {

// Values of `wanted`, in order. Requires: every input and state that is read is in `fed` with its type.
std::vector<RefTensor> Interpret(const Graph& graph, const std::map<ValueId, RefTensor>& fed,
                                 std::span<const ValueId> wanted);

}  // namespace moka
