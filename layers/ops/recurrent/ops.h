// Ops of layers/front/recurrent, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> RecurrentOps();

}  // namespace moka
