// Ops of layers/front/loss, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> LossOps();

}  // namespace moka
