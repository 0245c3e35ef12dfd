// The shapes of data tops that the layers reading them say exactly: labels as their loss needs them, channels as Slice
// cuts them, marks as a recurrent layer's steps and streams. For looking at nets without their data.
#pragma once

#include "layers/net/net.h"
#include "layers/shapes/shape_needs.h"
#include "proto/moka.pb.h"

namespace moka {

// Other shapes for data tops of a filtered net that was built as far as `attempt` says, as the layers that could not be
// built need them. Empty: they say nothing.
TopShapes NeededShapes(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops);

// The data tops that a Slice with slice_points cuts, so wide that its last part is as wide as the one before it.
TopShapes EqualParts(const NetParameter& net, const DataTops& tops);

}  // namespace moka
