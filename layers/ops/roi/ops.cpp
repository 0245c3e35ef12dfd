#include "layers/ops/roi/ops.h"

namespace moka {

std::vector<OpDef> RoiOps() {
  return {
      AnchorTargetsOp(),     HardRegionsOp(),       MaskLabelsOp(),       MaskResizeBackwardOp(), MaskResizeOp(),
      MaskTargetsOp(),       PickBoxesBackwardOp(), PickBoxesOp(),        ProposalTargetsOp(),    ProposalsOp(),
      PsroiPoolBackwardOp(), PsroiPoolOp(),         RoiAlignBackwardOp(), RoiAlignOp(),           RoiPoolBackwardOp(),
      RoiPoolOp(),           RoiWarpBackwardOp(),   RoiWarpOp(),          TakeRowsBackwardOp(),   TakeRowsOp(),
  };
}

}  // namespace moka
