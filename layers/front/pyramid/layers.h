// Layers of two-stage detection over pyramids of maps, one file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef ClassMaskLayer();
LayerDef MaskEvaluateLayer();
LayerDef MaskTargetLayer();
LayerDef PyramidAnchorTargetLayer();
LayerDef PyramidProposalLayer();
LayerDef PyramidRoiAlignLayer();
LayerDef RegionOutputLayer();
LayerDef RegionTargetLayer();

std::vector<LayerDef> PyramidLayers();

}  // namespace moka
