// The first spelling of layers (V0) brought to the second (V1). Used by upgrade.cpp.
#pragma once

#include <string>

#include "proto/moka.pb.h"

namespace moka {

// Folds "padding" layers into the convolution or pooling that reads them, then upgrades every V0 layer to V1.
// Errors: kConfig where Caffe would stop.
void UpgradeV0Net(NetParameter& net, const std::string& file);

}  // namespace moka
