// Detection with branches and cascades: MS-CNN, Cascade R-CNN, and the C++ layers of makefile/frcnn. One file each or
// a pair that share their parts, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef BboxAccuracyLayer();
LayerDef BoxGroupOutputLayer();
LayerDef BoxOutputLayer();
LayerDef CascadeProposalTargetLayer();
LayerDef DecodeBBoxLayer();
LayerDef DetectionAccuracyLayer();
LayerDef DetectionDataLayer();
LayerDef DetectionGroupAccuracyLayer();
LayerDef DetectionGroupLossLayer();
LayerDef DetectionLossLayer();
LayerDef EvalDataLayer();
LayerDef FrcnnAnchorTargetLayer();
LayerDef FrcnnOutputLayer();
LayerDef FrcnnProposalLayer();
LayerDef FrcnnProposalTargetLayer();
LayerDef FrcnnRoiDataLayer();
LayerDef HardMiningLayer();
LayerDef ImageGtDataLayer();
LayerDef ScaleRouteLayer();

std::vector<LayerDef> CascadeLayers();

}  // namespace moka
