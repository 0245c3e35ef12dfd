// Two operands with numpy's broadcasting.
#pragma once

#include <string_view>

#include "layers/net/layer.h"

namespace moka {

// The formula of bottom 0 and `second`, Term::Input(0) and Term::Input(1). Errors: kConfig at the field if their axes
// do not go together.
ValueId Broadcast(const LayerBuilder& l, ValueId second, std::string_view field, const Term& formula);

}  // namespace moka
