// Ops of layers/front/segmentation, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> SegmentationOps();

OpDef ClassCountsOp();
OpDef InterpolateOp();
OpDef InterpolateBackwardOp();
OpDef SoftmaxLossesOp();
OpDef SoftmaxLossesBackwardOp();
OpDef UnpoolOp();
OpDef UnpoolBackwardOp();
OpDef UnpoolMaxOp();
OpDef UnpoolMaxBackwardOp();

}  // namespace moka
