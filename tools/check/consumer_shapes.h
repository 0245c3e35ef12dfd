// What the layers that read data tops say of their shapes, exactly: labels as their loss needs them, channels as Slice
// cuts them, marks as a recurrent layer's steps and streams. For looking at nets without their data.
#pragma once

#include <map>
#include <string>

#include "core/types.h"
#include "layers/net/net.h"
#include "proto/moka.pb.h"

namespace moka {

using TopShapes = std::map<std::string, Shape>;

// A top of a data layer, and what about its shape is a guess.
struct DataTop {
  Shape shape;
  std::string first;         // the first top of its layer
  bool can_change = false;   // its readers may say its shape, but for what is stated below
  bool can_rebatch = false;  // the first dimension
  bool can_resize = false;   // height and width of a picture
  bool can_be_gray = false;  // nothing says that a picture has three channels
  bool is_made = false;      // of other tops, by a layer that is not built in: its readers say all of its shape
  bool is_batch = false;     // the pictures of a layer that gives pictures and no rows
};
using DataTops = std::map<std::string, DataTop>;

// Other shapes for data tops of a filtered net that was built as far as `attempt` says, as the layers that could not be
// built need them. Empty: they say nothing.
TopShapes NeededShapes(const NetParameter& net, const NetAttempt& attempt, const DataTops& tops);

// Data tops whose Slice says where to cut with every part as wide as the one before the last cut.
TopShapes EqualParts(const NetParameter& net, const DataTops& tops);

}  // namespace moka
