// Anchors of region proposal networks.
#pragma once

#include "graph/attributes.h"

namespace moka {

// The boxes around the cell at the origin, four numbers each, ratios outside, scales inside (py-faster-rcnn's
// generate_anchors): a square of side `base` whose last pixel is base - 1, of equal area at each ratio height / width
// with whole sides, times each scale.
Doubles GenerateAnchors(double base, const Doubles& ratios, const Doubles& scales);

}  // namespace moka
