// What is read from licence plates, and whether it is right.
#pragma once

#include "layers/layer.h"

namespace moka {

LayerDef DetectionCcpdOutputLayer();
LayerDef LpEvaluateLayer();

}  // namespace moka
