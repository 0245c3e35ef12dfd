#include "layers/ops/segmentation/ops.h"

namespace moka {

std::vector<OpDef> SegmentationOps() {
  return {
      ClassCountsOp(), InterpolateOp(),    InterpolateBackwardOp(), SoftmaxLossesOp(),     SoftmaxLossesBackwardOp(),
      UnpoolOp(),      UnpoolBackwardOp(), UnpoolMaxOp(),           UnpoolMaxBackwardOp(),
  };
}

}  // namespace moka
