// Weights in panels: the layout in which Moka's matrix products read their right operand (gemm.h), so that weights that
// never change are packed once, by the reorder that the layout pass inserts, and not in every run. An op says with its
// attribute constant_weights (graph/passes/constant_weights.cpp) that they do not change. Private to
// layers/kernels/cpu.
#pragma once

#include <optional>
#include <string>

#include "core/types.h"
#include "graph/kernel.h"

namespace moka {

// Whether b [k,n], or [n,k] where it is read transposed, lies as panels of the best tiles' columns, [n / columns][k]
// [columns], the last one filled up with zeros; bfloat16 in pairs of k where the processor multiplies those.
bool LiesInPanels(const TensorType& b, bool transposed);

// "" or why not: every tensor plain, but input b may lie in panels.
std::string RefuseUnlessPlainOrPanels(const KernelQuery& query, size_t b, bool transposed);

// The plain layout for every tensor.
LayoutProposal ProposePlain(const KernelQuery& query);
// Plain, but input b in panels if it never changes or lies so already.
LayoutProposal ProposePanels(const KernelQuery& query, size_t b, bool transposed);

}  // namespace moka
