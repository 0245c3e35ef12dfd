// Ops of layers/front/segmentation, one file each, alphabetical.
#pragma once

#include <vector>

#include "graph/op.h"

namespace moka {

std::vector<OpDef> SegmentationOps();

}  // namespace moka
