#include "layers/ops/sequence/ops.h"

namespace moka {

std::vector<OpDef> SequenceOps() {
  return {CtcDecodeOp(), CtcLossBackwardOp(), CtcLossOp(),     EditDistanceOp(),   FlowWarpBackwardOp(),
          FlowWarpOp(),  LatticeFilterOp(),   ReverseTimeOp(), SequenceLengthOp(), WinnerMaskOp()};
}

}  // namespace moka
