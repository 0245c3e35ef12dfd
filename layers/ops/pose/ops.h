// Ops of layers/front/pose, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> PoseOps();

OpDef CubicMeanOp();
OpDef HeatPeaksOp();
OpDef MapMaximaOp();

}  // namespace moka
