// Rows for ops that the CPU does in programs of GPUs: they always refuse, and say why.
#pragma once

#include <vector>

#include "graph/kernel.h"

namespace moka {

std::vector<KernelDef> KernelsOnHost();

}  // namespace moka
