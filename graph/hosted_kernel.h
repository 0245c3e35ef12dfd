// Runs a node of a GPU's program on the CPU: inputs are copied to the host, a kernel of the CPU works on them, outputs
// are copied back, all in the stream's order and as part of what is recorded. For ops that no kernel of the GPU takes.
#pragma once

#include <memory>

#include "graph/kernel.h"

namespace moka {

// Requires: a kernel of the CPU for the query's types.
std::unique_ptr<Kernel> MakeHostedKernel(std::unique_ptr<Kernel> kernel, const KernelQuery& query);

}  // namespace moka
