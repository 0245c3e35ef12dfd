// Moves of elements that several layers of this folder share.
#pragma once

#include <string_view>

#include "layers/net/layer.h"

namespace moka {

// x with `before` and `after` elements of one value put around it along an axis.
ValueId Bordered(const GraphBuilder& b, ValueId x, int axis, int64_t before, int64_t after, double value);

// Elements [begin, begin + size) of an axis. Requires: they are there, size at least 1.
ValueId CutOut(const GraphBuilder& b, ValueId x, int axis, int64_t begin, int64_t size);

// x [N,C,H,W] -> [N, C/(r*r), H*r, W*r], channel c*r*r + i*r + j at row i and column j of its square (channels first),
// or, `depth_first`, channel (i*r + j)*(C/(r*r)) + c. Errors: kConfig at the field if r*r does not divide C.
ValueId PixelShuffled(const LayerBuilder& l, std::string_view field, ValueId x, int64_t r, bool depth_first);

}  // namespace moka
