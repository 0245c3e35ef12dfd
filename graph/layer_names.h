// The layers of a node that joins several: a pass that makes one node of two keeps the names of both in its origin. A
// layer may be called anything ("branch+a", "inception_3a/1x1"), so names are never looked for in a text that shows
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moka {

// The separator of two names of an origin: no layer's name has it, which BuildNet sees to.
inline constexpr char kBetweenLayers = '\x1f';

// NodeOrigin::layer of a node that does the work of both; `layer` below is one.
std::string JoinedLayers(std::string_view first, std::string_view second);
// The names of it, in order.
std::vector<std::string> LayersOf(std::string_view layer);
// How it is shown: "conv1+relu1".
std::string LayersText(std::string_view layer);

}  // namespace moka
