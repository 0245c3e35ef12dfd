// The hinges that the losses of triplets share.
#pragma once

#include "layers/net/layer.h"

namespace moka {

// max(0, margin + |a-p|^2 - |a-n|^2) of each triplet, [N,1]; a, p and n are bottoms 0, 1 and 2, [N,C].
ValueId TripletHinges(const LayerBuilder& l, double margin);

}  // namespace moka
