// Panels are proposed as a layout: the reorder of a constant weight is then a constant itself, made once, and the
// product skips the packing that gemm.cpp would do in each run.
#include "layers/kernels/cpu/matmul/panels.h"

#include <vector>

#include "core/text.h"
#include "graph/graph.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"

namespace moka {
namespace {

// [n / columns][k][columns] in memory, whether b is [k,n] or its transpose; of bfloat16 [n / columns][k /
// 2][columns][2] where the processor has tiles of pairs.
Layout Panels(const TensorType& b, bool transposed) {
  if (b.dtype == DType::kBFloat16) {
    const gemm::Tiles* const pairs = gemm::PairTiles(b.shape[transposed ? 1 : 0]);
    if (pairs == nullptr) return {};
    return Layout::Parse(transposed ? StrCat("AB", pairs->columns, "a2b") : StrCat("BA", pairs->columns, "b2a"));
  }
  const int columns = gemm::BestTiles().columns;
  return Layout::Parse(transposed ? StrCat("Ab", columns, "a") : StrCat("Ba", columns, "b"));
}

}  // namespace

bool LiesInPanels(const TensorType& b, bool transposed) {
  return b.shape.rank() == 2 && !b.layout.is_plain() && b.layout == Panels(b, transposed);
}

// Panels count as plain here; all else must be plain.
std::string RefuseUnlessPlainOrPanels(const KernelQuery& query, size_t b, bool transposed) {
  std::vector<TensorType> inputs(query.inputs.begin(), query.inputs.end());
  if (LiesInPanels(inputs[b], transposed)) inputs[b].layout = {};
  return RefuseUnlessPlain({query.node, inputs, query.outputs, query.deterministic});
}

LayoutProposal ProposePlain(const KernelQuery& query) {
  return {std::vector<Layout>(query.inputs.size()), std::vector<Layout>(query.outputs.size())};
}

// Only weights that no step changes are worth a layout of their own: a reorder in every run would cost what packing
// does.
LayoutProposal ProposePanels(const KernelQuery& query, size_t b, bool transposed) {
  LayoutProposal proposal = ProposePlain(query);
  const bool wanted = query.node.attributes.Bool("constant_weights") || LiesInPanels(query.inputs[b], transposed);
  if (wanted && query.inputs[b].shape.rank() == 2) proposal.inputs[b] = Panels(query.inputs[b], transposed);
  return proposal;
}

}  // namespace moka
