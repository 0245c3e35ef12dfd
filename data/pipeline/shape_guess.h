// Shapes of a data layer's tops when its source is not there: from the layer's own fields, so that a net can be looked
// at, drawn and timed without its data.
#pragma once

#include <string>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

struct GuessedTypes {
  std::vector<TensorType> types;  // one a top; none: the layer says too little
  // What no field says and was taken from the source's name or from habit; empty: everything stands in the fields.
  std::string assumed;
};

GuessedTypes GuessTypes(const LayerParameter& layer);

}  // namespace moka
