// Packs weights gate by gate, in panels of one block's units, and states and gradients as rows of tiles: the order in
// which the inner loop of a product (gemm.h) reads both.
#include "layers/kernels/cpu/recurrent/recurrence.h"

#include <vector>

#include "core/half_spans.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cpu/matmul/panels.h"

namespace moka::recurrence {

Factors FactorsOf(const TensorType& weights) {
  const gemm::Tiles* const pairs = weights.dtype == DType::kBFloat16 ? gemm::PairTiles(weights.shape[1]) : nullptr;
  if (pairs != nullptr) return {pairs, DType::kFloat32};
  return {&gemm::BestTiles(), weights.dtype};
}

const void* Widened(const Cut& cut, const void* w, float* scratch) {
  if (!cut.factors().widens()) return w;
  ParallelFor(cut.gates * cut.units, 1 + (1 << 15) / cut.units, [&](int64_t begin, int64_t end, int) {
    Widen(cut.factors().widened_from, static_cast<const uint16_t*>(w) + begin * cut.units, (end - begin) * cut.units,
          scratch + begin * cut.units);
  });
  return scratch;
}

// w's rows of a gate, transposed by strides alone: the product is with w^T. The pairs of a row follow each other.
void PackGates(const Cut& cut, const void* w, int64_t block, float* panels) {
  const int64_t unit = block * cut.width;
  for (int64_t gate = 0; gate < cut.gates; ++gate) {
    const auto* words = static_cast<const float*>(w) + (gate * cut.units + unit) * cut.words;
    cut.tiles().pack_panels({words, 1, cut.words}, cut.words, cut.UnitsOf(block), panels + cut.PanelAt(block, gate));
  }
}

// Here k runs through the rows of w: a pair is of two of them.
void PackGatesBack(const Cut& cut, const void* w, int64_t block, float* panel) {
  const int64_t unit = block * cut.width;
  const int64_t n = cut.UnitsOf(block);
  if (cut.tiles().values == 1) {
    const auto* columns = static_cast<const float*>(w) + unit;
    return cut.tiles().pack_panels({columns, cut.units, 1}, cut.gates * cut.units, n, panel);
  }
  gemm::PackPairs(cut.tiles(), static_cast<const uint16_t*>(w) + unit, cut.units, cut.gates * cut.units, n, panel);
}

std::string RefuseUnlessRecurrent(const KernelQuery& query, size_t weights) {
  std::vector<TensorType> inputs(query.inputs.begin(), query.inputs.end());
  if (IsHalf(inputs[weights].dtype)) inputs[weights].dtype = DType::kFloat32;
  const KernelQuery floats{query.node, inputs, query.outputs, query.deterministic};
  if (std::string reason = RefuseUnlessFilledFloat32(floats); !reason.empty()) return reason;
  return RefuseUnlessPlainOrPanels(query, weights, true);
}

// Panels are proposed only where they divide a gate's units: else one would hold units of two gates.
std::optional<LayoutProposal> Propose(const KernelQuery& query, size_t weights) {
  const Factors factors = FactorsOf(query.inputs[weights]);
  const int64_t units = query.inputs[weights].shape[1];
  const bool fills_panels = units % factors.tiles->columns == 0;
  return fills_panels && !factors.widens() ? ProposePanels(query, weights, true) : ProposePlain(query);
}

void PackRows(const Cut& cut, const gemm::Matrix& from, int64_t rows, int64_t n, float* packed) {
  const gemm::Tiles& tiles = cut.tiles();
  if (tiles.round == nullptr) return tiles.pack_rows(from, rows, n, packed);
  alignas(64) Sums words;
  const int64_t stride = cut.width / tiles.values;
  for (int64_t r = 0; r < rows; ++r) tiles.round(from.data + r * from.row_stride, n, words.data() + r * stride);
  tiles.pack_rows({words.data(), stride, 1}, rows, n / tiles.values, packed);
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
    PackRows(cut, {kept.data(), cut.width, 1}, rows, units, state + first * cut.words + cut.PackedAt(unit, rows));
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
    float* to = packed + first * cut.gates * cut.words + cut.PackedAt(unit, rows);
    PackRows(cut, of_gate, rows, cut.UnitsOf(block), to);
  }
}

}  // namespace moka::recurrence
