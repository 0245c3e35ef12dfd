#include "layers/ops/yolo/ops.h"

#include "layers/ops/yolo/cells_loss.h"

namespace moka {

std::vector<OpDef> YoloOps() {
  return {BoxExcitationOp(), EvalDetectionOp(), EvalSquaresOp(),    RegionLossOp(),
          SquaresLossOp(),   YoloCellsLossOp(), YoloDetectionsOp(), Yolov3LossOp()};
}

}  // namespace moka
