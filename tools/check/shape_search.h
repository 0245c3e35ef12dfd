// Shapes of data tops with which a net builds, where its fields leave them open and the first guess does not fit: what
// the readers say exactly (consumer_shapes.h), then a bounded list of sizes of pictures.
#pragma once

#include <optional>

#include "layers/net/net.h"
#include "proto/moka.pb.h"
#include "tools/check/consumer_shapes.h"

namespace moka {

// `given` with the shapes of further data tops, with which the net builds in a state; none if no such were found. What
// the net's text says of a shape is never overruled.
std::optional<TopShapes> FindShapes(const NetParameter& net, const NetState& state, const TopShapes& given);

// How nets are built that are looked at without their data.
NetOptions LookingOptions(const NetState& state, const TopShapes& shapes);

}  // namespace moka
