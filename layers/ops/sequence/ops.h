// Ops of layers/front/sequence, one file a kind, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef CorrelationBackwardOp();
OpDef CorrelationOp();
OpDef CtcDecodeOp();
OpDef CtcLossBackwardOp();
OpDef CtcLossOp();
OpDef EditDistanceOp();
OpDef FlowWarpBackwardOp();
OpDef FlowWarpOp();
OpDef LatticeFilterOp();
OpDef ResampleOp();
OpDef ReverseTimeOp();
OpDef SequenceLengthOp();
OpDef WinnerMaskOp();

std::vector<OpDef> SequenceOps();

}  // namespace moka
