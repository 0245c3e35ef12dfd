// Segmentation: the BN dialects, unpooling, interpolation, accuracy by class. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> SegmentationLayers();

LayerDef BnLayer();
LayerDef DenseImageDataLayer();
LayerDef EltwiseAccuracyLayer();
LayerDef ImageSegDataLayer();
LayerDef InterpLayer();
LayerDef MatWriteLayer();
LayerDef MergeCropLayer();
LayerDef PaddingLayer();
LayerDef SegAccuracyLayer();
LayerDef UnpoolingLayer();
LayerDef UpsampleDarknetLayer();
LayerDef UpsampleLayer();

}  // namespace moka
