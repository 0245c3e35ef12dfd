// Two-stage detection: regions of interest, proposals and the well-known Python layers of its nets. One file each,
// alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef MaskPoolingLayer();
LayerDef MaskResizeLayer();
LayerDef MultiRoiPoolingLayer();
LayerDef OftenMtcnnAccuracyLayer();
LayerDef OftenMtcnnClassBridgeLayer();
LayerDef OftenMtcnnEuclideanLossLayer();
LayerDef OftenMtcnnLandMarkLossLayer();
LayerDef OftenMtcnnSoftmaxLossLayer();
LayerDef ProposalLayer();
LayerDef PsroiPoolingLayer();
LayerDef PythonLayer();
LayerDef RoiAlignLayer();
LayerDef RoiAlignmentLayer();
LayerDef RoiMaskPoolingLayer();
LayerDef RoiPoolingLayer();
LayerDef RoiWarpingLayer();
LayerDef RoiWarpingTestLayer();

std::vector<LayerDef> RoiLayers();

}  // namespace moka
