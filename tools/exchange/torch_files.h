// The files that `moka import` and `moka export` write of PyTorch's weights.
#pragma once

#include "tools/cli/command_line.h"

namespace moka {

// `moka import WEIGHTS --net MODEL`: writes weights with the net's names, and the net with PyTorch's way of pictures,
// and prints what was done. Returns the exit code. Errors: those of ImportTorchWeights; kUsage.
int ImportTorchFile(const Arguments& arguments);

}  // namespace moka
