// Shapes of data tops that no field says and whose first guess does not fit, from the layers that read them: labels as
// their loss needs them, channels as Slice cuts them. For looking at nets without their data.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

using TopShapes = std::map<std::string, Shape>;

// The shapes of all blobs of a net whose data tops have `shapes` (others are guessed); none if it does not build.
using TryNet = std::function<std::optional<TopShapes>(const NetParameter&, const TopShapes& shapes)>;

// `given` with shapes of further data tops, with which the filtered net builds; none if no such were found.
std::optional<TopShapes> ShapesByConsumers(const NetParameter& net, const TopShapes& given, const TryNet& build);

}  // namespace moka
