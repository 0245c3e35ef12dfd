// Ops of layers/front/detectnet, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef AugmentChoicesOp();
OpDef AugmentColourOp();
OpDef AugmentPlaceOp();
OpDef BoxCoverageOp();
OpDef ClusterBoxesOp();
OpDef ScoreBoxesOp();

std::vector<OpDef> DetectNetOps();

}  // namespace moka
