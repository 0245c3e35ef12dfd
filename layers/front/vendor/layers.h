// Layers of vendors' forks (Synopsys) and of single authors' that only their own nets have. One file a kind,
// alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

struct PythonLayerDef;

std::vector<LayerDef> VendorLayers();
// Synopsys's layers in Python.
std::vector<PythonLayerDef> SynopsysPythonLayers();

LayerDef AbsLossLayer();
LayerDef DiceCoefLossLayer();
LayerDef IcNetSubgraphLayer();
LayerDef SegDataLayer();
LayerDef SparsifyLayer();
LayerDef YoloV2LossLayer();
LayerDef YoloV3LossLayer();

}  // namespace moka
