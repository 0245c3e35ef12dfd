// The first spelling of layers (V0) brought to the second (V1). Used by upgrade.cpp.
#pragma once

#include <string>
#include <string_view>

#include "proto/moka.pb.h"

namespace moka {

// Folds "padding" layers into the convolution or pooling that reads them, then upgrades every V0 layer to V1.
// Errors: kConfig where Caffe would stop.
void UpgradeV0Net(NetParameter& net, const std::string& file);

// V1's type of a V0 one ("conv"); NONE if there is none.
V1LayerParameter::LayerType V1TypeOf(std::string_view v0_type);

}  // namespace moka
