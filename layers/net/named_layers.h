// Names for layers that have none of their own.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// Caffe lets layers go without a name or share one; parameters need names of their own here, so layers without one are
// called for their type, and later ones of a name get a number: "ReLU", "ReLU#2". The same for a net that has been
// named. Returns a sentence for each layer that was renamed. Requires: the net is filtered for its state.
std::vector<std::string> NameLayers(NetParameter& net);

}  // namespace moka
