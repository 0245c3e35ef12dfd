// Ops of layers/front/loss, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef HardExampleMaskOp();
OpDef LabelMaskOp();
OpDef OutputDecayOp();
OpDef SampleTripletsOp();
OpDef TableOp();

std::vector<OpDef> LossOps();

}  // namespace moka
