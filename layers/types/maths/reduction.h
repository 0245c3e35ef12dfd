// The mean of the largest elements, which Reduction and BatchReduction share.
#pragma once

#include <string_view>

#include "layers/net/layer.h"

namespace moka {

// The mean of the k largest elements along an axis, which stays as a dimension of 1. Errors: kConfig at the field
// unless 1 <= k <= the dimension.
ValueId TopKMean(const LayerBuilder& l, std::string_view field, ValueId x, int axis, int64_t k);

}  // namespace moka
