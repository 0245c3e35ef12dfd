// Ops of layers/front/loss, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef HardExampleMaskOp();
OpDef LabelMaskOp();
OpDef TableOp();

std::vector<OpDef> LossOps();

}  // namespace moka
