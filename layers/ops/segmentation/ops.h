// Ops of layers/front/segmentation, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> SegmentationOps();

OpDef BorderWeightOp();
OpDef ClassCountsOp();
OpDef InterpolateOp();
OpDef InterpolateBackwardOp();
OpDef RandScoreOp();
OpDef SoftmaxLossesOp();
OpDef SoftmaxLossesBackwardOp();
OpDef UnpoolOp();
OpDef UnpoolBackwardOp();
OpDef UnpoolMaxOp();
OpDef UnpoolMaxBackwardOp();

}  // namespace moka
