// Two operands with numpy's broadcasting.
#pragma once

#include <string>
#include <string_view>

#include "layers/net/layer.h"

namespace moka {

// The expression of bottom 0 and `second`, x0 and x1. Errors: kConfig at the field if their axes do not go together.
ValueId Broadcast(const LayerBuilder& l, ValueId second, std::string_view field, const std::string& expression);

}  // namespace moka
