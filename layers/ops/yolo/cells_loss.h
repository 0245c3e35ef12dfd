// The op of YOLO's losses by cells.
#pragma once

#include "graph/op.h"

namespace moka {

OpDef YoloCellsLossOp();

}  // namespace moka
