#include "layers/ops/segmentation/ops.h"

namespace moka {

std::vector<OpDef> SegmentationOps() {
  return {BorderWeightOp(),   ClassCountsOp(),   InterpolateOp(),           InterpolateBackwardOp(),
          RandScoreOp(),      SoftmaxLossesOp(), SoftmaxLossesBackwardOp(), UnpoolOp(),
          UnpoolBackwardOp(), UnpoolMaxOp(),     UnpoolMaxBackwardOp()};
}

}  // namespace moka
