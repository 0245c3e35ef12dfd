// The rows of all-reduces on CPUs, on which those of GPUs stand.
#pragma once

#include "graph/kernel.h"

namespace moka {

KernelDef MokaAllReduceBegin();
KernelDef MokaAllReduceEnd();

}  // namespace moka
