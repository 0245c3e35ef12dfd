// Items over their norms, for the layers of that kind here and among the Python layers.
#pragma once

#include "layers/net/layer.h"

namespace moka {

// x / (sqrt(sum of x^2 + inside) + outside), the sum over all of an item (axis 0 apart); 0 where the divisor is 0.
ValueId UnitItems(const LayerBuilder& l, ValueId x, double inside, double outside);

}  // namespace moka
