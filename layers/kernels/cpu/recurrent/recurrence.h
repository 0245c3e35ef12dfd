// The part that the fused recurrences (lstm.cpp, gru.cpp) share: how a step is cut into tiles of rows and blocks of
// units, which threads take them, and how weights and states are packed for its products.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "core/threads/parallel.h"
#include "core/types.h"
#include "graph/kernel.h"
#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/work_queue.h"

namespace moka::recurrence {

constexpr int64_t kFloat = sizeof(float);
inline int64_t Aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

// A place for the largest tile.
using Sums = std::array<float, 1024>;

// The way to multiply a state with weights [gates * units, units]: float32 by tiles of float32, bfloat16 in pairs where
// the processor multiplies them (the state is rounded to them). Other weights of half types are widened.
struct Factors {
  const gemm::Tiles* tiles;
  DType widened_from;  // float32: they come as the tiles take them
  bool widens() const { return widened_from != DType::kFloat32; }
};
Factors FactorsOf(const TensorType& weights);

// Steps, rows and units of gates [steps, rows, gate_count * units], and the cut of rows into tiles and of units into
// blocks.
class Cut {
 public:
  Cut(const Shape& shape, int64_t gate_count, const Factors& factors, bool has_lengths)
      : steps(shape[0]),
        rows(shape[1]),
        gates(gate_count),
        units(shape[2] / gate_count),
        words(units / factors.tiles->values),
        width(factors.tiles->columns),
        blocks((units + width - 1) / width),
        factors_(factors),
        row_tiles_((rows + tiles().rows - 1) / tiles().rows) {
    // Where rows end early a thread of its own rows would end with them.
    if (has_lengths || rows < kRowsOfAThread * ThreadCount()) return;
    groups_ = ThreadCount();
    row_tiles_ = (row_tiles_ + groups_ - 1) / groups_ * groups_;
  }

  const int64_t steps;
  const int64_t rows;
  const int64_t gates;
  const int64_t units;
  const int64_t words;  // of as many values, as tiles pack them
  const int64_t width;  // of a block of units
  const int64_t blocks;

  const gemm::Tiles& tiles() const { return *factors_.tiles; }
  const Factors& factors() const { return factors_; }
  int64_t row_tiles() const { return row_tiles_; }
  int64_t TileBegin(int64_t tile) const { return rows * tile / row_tiles_; }
  // Weights of products with a state, packed: [gates][blocks][words][width], as panels of weights that never change
  // lie.
  int64_t PanelFloats() const { return Aligned(gates * blocks * words * width); }
  int64_t PanelAt(int64_t block, int64_t gate) const { return (gate * blocks + block) * words * width; }
  // The place of a unit's values in a packed tile of so many rows.
  int64_t PackedAt(int64_t unit, int64_t tile_rows) const { return unit / tiles().values * tile_rows; }
  // The scratch for widened weights.
  int64_t WidenedFloats() const { return factors_.widens() ? Aligned(gates * units * units) : 0; }
  int64_t UnitsOf(int64_t block) const { return std::min(width, units - block * width); }
  // Blocks a part should have at least: a thread is woken for some hundred thousand multiplications.
  int64_t Grain(int64_t multiplications) const {
    return 1 + (1 << 18) * blocks / std::max<int64_t>(1, multiplications);
  }
  // f(t, block, tile) for all of every step from first to last, a block's tiles one after another. Rows do not depend
  // on each other: where there are many, each thread takes some through all steps and waits for nobody. Else threads
  // take a step's tiles as they come free.
  template <class F>
  void ForSteps(int64_t first, int64_t last, F&& f) const {
    const int64_t sign = first <= last ? 1 : -1;
    if (groups_ == 1) {
      for (int64_t t = first; t != last + sign; t += sign) {
        ForTiles([&](int64_t block, int64_t tile) { f(t, block, tile); });
      }
      return;
    }
    ParallelFor(groups_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = first; t != last + sign; t += sign) {
        for (int64_t block = 0; block < blocks; ++block) {
          for (int64_t i = row_tiles_ / groups_ * begin; i < row_tiles_ / groups_ * end; ++i) f(t, block, i);
        }
      }
    });
  }

 private:
  // A thread takes so many rows that multiplying takes longer than loading the weights from the third level of cache.
  static constexpr int64_t kRowsOfAThread = 24;

  template <class F>
  void ForTiles(F&& f) const {
    const int64_t workers = std::clamp<int64_t>(blocks / Grain(gates * rows * units * units), 1, ThreadCount());
    WorkQueue queue(blocks * row_tiles_, row_tiles_, static_cast<int>(workers));
    ParallelFor(workers, 1, [&](int64_t, int64_t, int) {
      for (int64_t begin = 0, end = 0; queue.Take(begin, end);) {
        for (int64_t i = begin; i < end; ++i) f(i / row_tiles_, i % row_tiles_);
      }
    });
  }

  Factors factors_;
  int64_t row_tiles_;
  int64_t groups_ = 1;  // of tiles, one a thread
};

// How many steps each row has: its whole number of `lengths` [rows], or all where that is null.
class Lengths {
 public:
  Lengths(const Cut& cut, const float* lengths) : cut_(cut), lengths_(lengths) {}

  int64_t Of(int64_t row) const {
    if (lengths_ == nullptr) return cut_.steps;
    const float length = lengths_[row];
    return length > 0 ? static_cast<int64_t>(std::min(length, static_cast<float>(cut_.steps))) : 0;
  }
  // Returns the steps of the longest row of a tile: from there on nothing is left to compute.
  int64_t OfTile(int64_t tile) const {
    if (lengths_ == nullptr) return cut_.steps;
    int64_t longest = 0;
    for (int64_t row = cut_.TileBegin(tile); row < cut_.TileBegin(tile + 1); ++row)
      longest = std::max(longest, Of(row));
    return longest;
  }

  const Cut& cut() const { return cut_; }

 private:
  const Cut& cut_;
  const float* lengths_;
};

// The rows of a tile at step t, by their numbers in it: go(first, count) for runs of those that go on, end(row) for
// each that has ended.
template <class Go, class End>
void ForGoing(const Lengths& lengths, int64_t t, int64_t tile, Go&& go, End&& end) {
  const int64_t first = lengths.cut().TileBegin(tile);
  const int64_t rows = lengths.cut().TileBegin(tile + 1) - first;
  for (int64_t row = 0; row < rows;) {
    int64_t next = row;
    while (next < rows && t < lengths.Of(first + next)) ++next;
    if (next > row) go(row, next - row);
    if (next < rows) end(next);
    row = next + 1;
  }
}

// Zeroes n floats of some rows.
inline void Clear(float* at, int64_t stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(at + r * stride, n, 0.0F);
}

// Asks for n floats of some rows that are needed when a product is done; they lie too far apart for the hardware to
// guess. A few dozen lines at once: while more are on their way nothing else can come.
inline void Ask(const float* from, int64_t stride, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(from + r * stride + i);
  }
}

// Returns the weights w [gates * units, units] as the packing functions take them: themselves, or widened into
// `scratch`.
const void* Widened(const Cut& cut, const void* w, float* scratch);

// Such weights of a block's units, for products with a state: a panel [words][width] a gate, at their places among all
// panels.
void PackGates(const Cut& cut, const void* w, int64_t block, float* panels);
// And for products with the gradients of gates: one panel [gates * words][width].
void PackGatesBack(const Cut& cut, const void* w, int64_t block, float* panel);

// "" or why not: all plain float32 with elements, but the weights, input `weights`, may be of a half type or lie in
// panels.
std::string RefuseUnlessRecurrent(const KernelQuery& query, size_t weights);
// Plain but for the weights, input `weights`: panels where they never change and each gate fills whole ones.
std::optional<LayoutProposal> Propose(const KernelQuery& query, size_t weights);

// Rows of floats [rows][stride] of a run of n units, as a tile's part.
void PackRows(const Cut& cut, const gemm::Matrix& from, int64_t rows, int64_t n, float* packed);

// A block's part of the state that enters step 0, in tiles [words][rows of the tile]: h [rows, units] times the row's
// mark, 0 where that is 0 whatever h is.
void PackFirstState(const Cut& cut, const float* going, const float* h, int64_t block, float* state);

// The gradients of step t's sums, [steps, rows, gates * units], of a tile's rows and a block's units, into the tile's
// place among `packed` tiles [gates * words][rows of the tile].
void PackGradients(const Cut& cut, const float* gradients, int64_t t, int64_t tile, int64_t block, float* packed);

}  // namespace moka::recurrence
