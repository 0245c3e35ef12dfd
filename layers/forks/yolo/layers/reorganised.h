// darknet's reorg, for the layers that have it.
#pragma once

#include <string>

#include "layers/net/layer.h"

namespace moka {

// Bottom 0 [N,C,H,W] as darknet's reorg of this stride makes it [N, C s^2, H/s, W/s]. Errors: kConfig at bottom 0 or
// the field.
ValueId Reorganized(const LayerBuilder& l, int64_t stride, const std::string& field);

}  // namespace moka
