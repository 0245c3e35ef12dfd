// Ops of layers/front/ssd, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> SsdOps();

}  // namespace moka
