// Packs weights gate by gate, in panels of one block's units, and states and gradients as rows of tiles: the order in
// which the inner loop of a product (gemm.h) reads both.
#include "layers/kernels/cpu/recurrent/recurrence.h"

#include "layers/kernels/cpu/matmul/panels.h"

namespace moka::recurrence {

// w's rows of a gate, transposed by strides alone: the product is with w^T.
void PackGates(const Cut& cut, const float* w, int64_t block, float* panels) {
  const int64_t unit = block * cut.width;
  for (int64_t gate = 0; gate < cut.gates; ++gate) {
    const gemm::Matrix of_gate{w + (gate * cut.units + unit) * cut.units, 1, cut.units};
    cut.tiles().pack_panels(of_gate, cut.units, cut.UnitsOf(block), panels + cut.PanelAt(block, gate));
  }
}

// The first state enters as every later one does: times the marks of its step, and nothing where a mark is 0.
void PackFirstState(const Cut& cut, const float* going, const float* h, int64_t block, float* state) {
  const int64_t unit = block * cut.width;
  const int64_t units = cut.UnitsOf(block);
  for (int64_t tile = 0; tile < cut.row_tiles(); ++tile) {
    const int64_t first = cut.TileBegin(tile);
    const int64_t rows = cut.TileBegin(tile + 1) - first;
    Sums kept{};
    for (int64_t r = 0; r < rows; ++r) {
      const float m = going[first + r];
      for (int64_t j = 0; j < units; ++j) {
        kept[static_cast<size_t>(r * cut.width + j)] = m == 0.0F ? 0.0F : m * h[(first + r) * cut.units + unit + j];
      }
    }
    cut.tiles().pack_rows({kept.data(), cut.width, 1}, rows, units, state + first * cut.units + unit * rows);
  }
}

// Gates lie one behind the other in the depth, so that one product sums over gates and units.
void PackGradients(const Cut& cut, const float* gradients, int64_t t, int64_t tile, int64_t block, float* packed) {
  const int64_t first = cut.TileBegin(tile);
  const int64_t rows = cut.TileBegin(tile + 1) - first;
  const int64_t width = cut.gates * cut.units;
  for (int64_t gate = 0; gate < cut.gates; ++gate) {
    const int64_t unit = gate * cut.units + block * cut.width;
    const gemm::Matrix of_gate{gradients + (t * cut.rows + first) * width + unit, width, 1};
    cut.tiles().pack_rows(of_gate, rows, cut.UnitsOf(block), packed + first * width + unit * rows);
  }
}

// Panels are proposed only where they divide a gate's units: else one would hold units of two gates.
std::optional<LayoutProposal> Propose(const KernelQuery& query, size_t weights) {
  const int64_t units = query.inputs[weights].shape[1];
  const bool fills_panels = units % gemm::BestTiles().columns == 0;
  return fills_panels ? ProposePanels(query, weights, true) : ProposePlain(query);
}

}  // namespace moka::recurrence
