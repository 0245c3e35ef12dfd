#include "layers/ops/yolo/ops.h"

#include "layers/ops/yolo/cells_loss.h"

namespace moka {

std::vector<OpDef> YoloOps() {
  return {EvalDetectionOp(), RegionLossOp(), YoloCellsLossOp(), YoloDetectionsOp(), Yolov3LossOp()};
}

}  // namespace moka
