// Ops of layers/front/shape, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

OpDef Col2imOp();
OpDef FilterIndexOp();
OpDef FlipOp();
OpDef Im2colOp();
OpDef ReindexBackwardOp();
OpDef ReindexOp();

std::vector<OpDef> ShapeOps();

}  // namespace moka
