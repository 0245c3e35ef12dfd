// Ops of layers/front/yolo, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> YoloOps();

OpDef BoxExcitationOp();
OpDef EvalDetectionOp();
OpDef EvalSquaresOp();
OpDef RegionLossOp();
OpDef SquaresLossOp();
OpDef YoloDetectionsOp();
OpDef Yolov3LossOp();

}  // namespace moka
