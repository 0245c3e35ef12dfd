// Ops of layers/front/roi, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> RoiOps();

}  // namespace moka
