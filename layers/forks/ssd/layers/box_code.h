// The codes of boxes, in prototxt and in ops.
#pragma once

#include <string>

#include "proto/moka.pb.h"

namespace moka {

// The word of a code_type in ops' attribute "code".
inline std::string BoxCodeWord(PriorBoxParameter::CodeType type) {
  if (type == PriorBoxParameter::CENTER_SIZE) return "center_size";
  return type == PriorBoxParameter::CORNER_SIZE ? "corner_size" : "corner";
}

}  // namespace moka
