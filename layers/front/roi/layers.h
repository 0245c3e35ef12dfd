// Two-stage detection: regions of interest, proposals and the well-known Python layers of its nets. One file each,
// alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef MaskPoolingLayer();
LayerDef MaskResizeLayer();
LayerDef ProposalLayer();
LayerDef PsroiPoolingLayer();
LayerDef PythonLayer();
LayerDef RoiAlignLayer();
LayerDef RoiPoolingLayer();
LayerDef RoiWarpingLayer();
LayerDef RoiWarpingTestLayer();

std::vector<LayerDef> RoiLayers();

}  // namespace moka
