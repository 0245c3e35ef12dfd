// Ops of layers/front/roi, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef AnchorTargetsOp();
OpDef HardRegionsOp();
OpDef MaskLabelsOp();
OpDef MaskResizeBackwardOp();
OpDef MaskResizeOp();
OpDef MaskTargetsOp();
OpDef PickBoxesBackwardOp();
OpDef PickBoxesOp();
OpDef ProposalTargetsOp();
OpDef ProposalsOp();
OpDef PsroiPoolBackwardOp();
OpDef PsroiPoolOp();
OpDef RoiAlignBackwardOp();
OpDef RoiAlignOp();
OpDef RoiPoolBackwardOp();
OpDef RoiPoolOp();
OpDef RoiWarpBackwardOp();
OpDef RoiWarpOp();
OpDef TakeRowsBackwardOp();
OpDef TakeRowsOp();

std::vector<OpDef> RoiOps();

}  // namespace moka
