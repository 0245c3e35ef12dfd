// Single-shot detection: priors, matching, output, evaluation. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> SsdLayers();

}  // namespace moka
