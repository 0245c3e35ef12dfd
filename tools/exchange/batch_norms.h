// Batch norms of a net for inference as one op each: layers write them as formulas of their statistics.
#pragma once

#include "graph/graph.h"

namespace moka {

// (x - mean) * 1/sqrt(variance + eps) by running statistics becomes one node batch_norm_apply, with a scale and a shift
// for each channel where the next layer is such a one and alone reads it. Requires: states are constants. Ensures:
// outputs equal up to rounding.
void JoinBatchNorms(Graph& graph);

}  // namespace moka
