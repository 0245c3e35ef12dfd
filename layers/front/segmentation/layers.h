// Segmentation: the BN dialects, unpooling, interpolation, accuracy by class. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers();

LayerDef BnLayer();
LayerDef BorderWeightLayer();
LayerDef DenseImageDataLayer();
LayerDef DiceLossLayer();
LayerDef EltwiseAccuracyLayer();
LayerDef ImageSegDataLayer();
LayerDef InterpLayer();
LayerDef MatWriteLayer();
LayerDef MergeCropLayer();
LayerDef PaddingLayer();
LayerDef RandScoreLayer();
LayerDef SegAccuracyLayer();
LayerDef SegmentationEvaluateLayer();
LayerDef UnpoolingLayer();
LayerDef UpsampleDarknetLayer();
LayerDef UpsampleLayer();

}  // namespace moka
