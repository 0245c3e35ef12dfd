// Ops of layers/front/pyramid, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef MaskCutsOp();
OpDef MaskOverlapsOp();
OpDef PictureRegionsOp();
OpDef PyramidAnchorTargetsOp();
OpDef PyramidProposalsOp();
OpDef RegionDetectionsOp();
OpDef RowChannelsOp();

std::vector<OpDef> PyramidOps();

}  // namespace moka
