// A rewrite of the fuse pass that has a file of its own.
#pragma once

#include "graph/passes/rewriter.h"

namespace moka {

// Replaces node `id` if it is a ReLU's mask over the gradient of a max pooling of that ReLU's result.
bool MaskPooled(Graph& graph, Rewriter& rewriter, NodeId id);

}  // namespace moka
