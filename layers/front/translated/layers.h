// Layers of nets translated from TensorFlow and PyTorch. One file each or a pair, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef AddLayer();
LayerDef BatchToSpaceNDLayer();
LayerDef DepthToSpaceLayer();
LayerDef HardSwishLayer();
LayerDef MulLayer();
LayerDef PadLayer();
LayerDef ResizeBilinearLayer();
LayerDef ResizeNearestNeighborLayer();
LayerDef SeluDropoutLayer();
LayerDef SeluLayer();
LayerDef SpaceToBatchNDLayer();
LayerDef SqueezeLayer();

std::vector<LayerDef> TranslatedLayers();

}  // namespace moka
