// The layers of a node that joins several: a pass that makes one node of two keeps the names of both in its origin. A
// layer may be called anything ("branch+a", "inception_3a/1x1"), so names are never looked for in a text that shows
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace moka {

// Between two names of an origin: no layer's name has it, which BuildNet sees to.
inline constexpr char kBetweenLayers = '\x1f';

// NodeOrigin::layer of a node that does the work of both.
std::string JoinedLayers(std::string_view first, std::string_view second);
// The names of it, in order.
std::vector<std::string> LayersOf(const NodeOrigin& origin);
// How it is shown: "conv1+relu1".
std::string LayersText(const NodeOrigin& origin);

// The layer that a state is of: of a weight the one that has it as a blob, or reads it first; of a slot that of its
// weight; empty if no node tells.
std::string LayerOfState(const Graph& graph, ValueId state);

}  // namespace moka
