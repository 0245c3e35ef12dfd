// Ops of layers/front/yolo, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> YoloOps();

OpDef EvalDetectionOp();
OpDef RegionLossOp();
OpDef YoloDetectionsOp();
OpDef Yolov3LossOp();

}  // namespace moka
