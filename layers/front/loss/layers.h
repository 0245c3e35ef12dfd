// Losses of metric and ranking nets, and the classic ones of Caffe that few nets use. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> LossLayers();

}  // namespace moka
