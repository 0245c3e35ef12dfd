#include "layers/ops/sequence/ops.h"

namespace moka {

std::vector<OpDef> SequenceOps() {
  return {CorrelationBackwardOp(), CorrelationOp(),      CtcDecodeOp(), CtcLossBackwardOp(), CtcLossOp(),
          EditDistanceOp(),        FlowWarpBackwardOp(), FlowWarpOp(),  LatticeFilterOp(),   ResampleOp(),
          ReverseTimeOp(),         SequenceLengthOp(),   WinnerMaskOp()};
}

}  // namespace moka
