// BatchNorm under a name of its own.
#pragma once

#include "layers/layer.h"

namespace moka {

LayerDef BatchNormScaleLayer();

}  // namespace moka
