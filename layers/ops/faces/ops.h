// Ops of layers/front/faces, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> FaceOps();

OpDef CenterGridLossOp();
OpDef CenterPeaksOp();
OpDef FaceScoresOp();
OpDef NearNegativesOp();
OpDef TripletRowsLossOp();

}  // namespace moka
