// Data layers whose tops' shapes only their source knows: the data room, which reads it, is asked for them.
#pragma once

#include <string>

#include "layers/net/layer.h"

namespace moka {

// A layer type without bottoms and with up to `max_tops` tops (-1: any number).
LayerDef OutsideDataLayer(std::string type, std::string doc, int max_tops, LayerPage page);

}  // namespace moka
