// Stochastic pooling in both phases (Zeiler, Fergus, arXiv 1301.3557).
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "layers/net/layer.h"

namespace moka {

// Bottom 0 pooled; geometry has kernel, stride, pad_begin and pad_end. TRAIN: an element of each window, drawn with a
// probability proportional to its value; TEST: the mean weighted by the values. `draw` tells the poolings of one layer
// apart. Requires: pad_begin is 0.
ValueId StochasticPool(LayerBuilder& l, const Attributes& geometry, uint64_t draw = 0);

}  // namespace moka
