// Detection on a grid of coverage (NVIDIA's DetectNet); its Python layers are in roi/python.h.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

LayerDef DetectNetTransformationLayer();

std::vector<LayerDef> DetectNetLayers();

}  // namespace moka
