// The second operand of Scale and Bias: a trained blob over axes [axis, axis + num_axes) of the bottom, or bottom 1.
#pragma once

#include <string>

#include "layers/net/layer.h"

namespace moka {

struct BroadcastFields {
  std::string prefix;  // "scale_param"
  int64_t axis;
  int64_t num_axes;
};

struct BroadcastOperand {
  Shape shape;
  int axis = 0;           // where it lies in the bottom
  ValueId value = kNoId;  // bottom 1; kNoId: the layer adds a blob of this shape
};

// Errors: kConfig for axes the bottom does not have, or a bottom 1 whose dimensions differ.
BroadcastOperand ReadOperand(const LayerBuilder& l, const BroadcastFields& fields);

}  // namespace moka
