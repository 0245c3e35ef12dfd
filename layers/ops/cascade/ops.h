// Ops of layers/front/cascade, one file each or a pair that share their parts, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef BranchAccuracyOp();
OpDef BranchProposalsOp();
OpDef BranchTargetsOp();
OpDef ClassDetectionsOp();
OpDef DecodeRegionsOp();
OpDef HardRowsOp();
OpDef RegionAccuracyOp();
OpDef RegionTargetsOp();
OpDef ScaleRowsOp();

std::vector<OpDef> CascadeOps();

}  // namespace moka
