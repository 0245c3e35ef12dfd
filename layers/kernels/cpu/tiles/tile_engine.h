// Evaluates an expression over one tile after another: brings each input to the tile (straight from memory, as one
// value, as a repeated pattern, converted or gathered), then runs the compiled steps. Half types are computed in T,
// from a tile to a tile, and rounded once. Made with the kernel, bound once to memory; Prepare runs once a run on one
// thread, then each part of the work uses its own State. A row is the last few dimensions of the walk; tiles never
// cross rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/device/tensor.h"
#include "layers/kernels/cpu/tiles/tile_program.h"
#include "layers/kernels/cpu/tiles/tile_walk.h"

namespace moka::tile {

struct EngineSpec {
  Expression expression;
  std::vector<TensorType> inputs;
  Layout layout;  // of the walk: the largest input's and the outputs'
  Shape shape;    // of the walk: the broadcast shape
  bool stores = true;
  std::vector<DType> outputs = {};  // if it stores: T or a half type
  // If nothing is stored: one more operand whose strides the kernel wants, a reduction's result.
  Shape extra;
  // Outputs that lie otherwise than the walk, which one and how. Requires: CanRepack.
  std::vector<std::pair<size_t, Layout>> repacked = {};
};

template <class T>
class TileEngine {
 public:
  // Operands of the walk: the inputs, the logical index, the repacked outputs, the other outputs (or the extra shape).
  explicit TileEngine(const EngineSpec& spec);

  const Walk& walk() const { return walk_; }
  const std::vector<int64_t>& extra_strides() const { return walk_.strides.back(); }
  // Makes the last `row_dims` dimensions a row, cut into tiles whose length is a multiple of `unit` (<= kTileLength).
  void SetRow(int row_dims, int64_t unit);
  int64_t row_length() const { return row_length_; }
  int64_t tile_length() const { return tile_length_; }
  int64_t tiles_per_row() const { return (row_length_ + tile_length_ - 1) / tile_length_; }
  int outer_dims() const { return walk_.dims() - row_dims_; }

  // Scratch of the whole engine for `parts` parts. Requires: SetRow was called.
  int64_t scratch_bytes(int parts) const;
  // outputs: empty unless the spec stores.
  void Bind(std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::byte* scratch);
  // Reads keys, stages small inputs, computes what is the same for all elements.
  void Prepare();

  // One part's memory, a slice of the scratch.
  class State {
   public:
    T* const* at = nullptr;

   private:
    friend class TileEngine;
    T** locations = nullptr;
    int64_t* bases = nullptr;  // of each operand at the row's start
    T* scalars = nullptr;
    T* buffers = nullptr;  // a tile for each input that is not read in place and each output that is not written there
    uint64_t* index = nullptr;
  };
  State StateOf(int part) const;
  // index: of the outer dimensions.
  void EnterRow(State& state, std::span<const int64_t> index) const;
  // Elements [begin, begin + n) of the row.
  void Evaluate(State& state, int64_t begin, int64_t n) const;
  // Returns the values of result 0 for the tile just evaluated, where nothing is stored; one value if is_scalar().
  const T* result(const State& state) const { return state.at[program_.results[0].location]; }
  bool is_scalar() const { return program_.results[0].is_scalar; }

 private:
  // How an input reaches a tile.
  enum class Source : uint8_t {
    kOneValue,   // the same along a row
    kInPlace,    // contiguous along a row, of type T
    kConverted,  // contiguous along a row, of another dtype
    kPeriodic,   // repeats after `period` elements
    kGathered,
  };
  struct Input {
    Source source = Source::kInPlace;
    bool is_staged = false;
    int64_t period = 0;
    int64_t staged_at = 0;  // offset in scratch, in T
    int64_t buffer = -1;
    Shape staged_shape;
    T* data = nullptr;  // of type T: the tensor's memory or the staged copy
  };

  bool IsContiguous(const std::vector<int64_t>& strides, int from) const;
  int64_t PeriodOf(const std::vector<int64_t>& strides) const;
  void ChooseSource(size_t input, int64_t unit);
  void Stage(size_t input) const;
  template <class Run>
  void VisitRuns(const std::vector<int64_t>& strides, int64_t begin, int64_t n, Run&& run) const;
  void Fetch(State& state, size_t input, int64_t begin, int64_t n) const;
  void PlaceOutputs(State& state, int64_t begin) const;
  // Brings the tile of repacked output k from its buffer to where it lies.
  void Scatter(const State& state, size_t k, int64_t begin, int64_t n) const;
  // The side of the square blocks that lie transposed in a repacked output, and that tiles hold whole; 0 if none.
  int64_t TransposedSide(const std::vector<int64_t>& strides, bool is_half) const;
  void ScatterHalf(const State& state, size_t operand, const Tensor& output, const T* from, int64_t begin,
                   int64_t n) const;
  void StoreHalves(const State& state, int64_t begin, int64_t n) const;
  T* BufferOf(const State& state, int64_t buffer) const { return state.buffers + buffer * kTileLength; }
  void ScatterBlocks(const State& state, size_t k, int64_t begin, int64_t n, int64_t side) const;

  EngineSpec spec_;
  Walk walk_;
  int row_dims_ = 0;
  int64_t row_length_ = 1;
  int64_t tile_length_ = kTileLength;
  std::vector<Input> inputs_;
  std::vector<Level> levels_;
  TileProgram program_;
  bool uses_index_ = false;
  bool is_index_contiguous_ = true;
  int64_t buffers_ = 0;
  int64_t first_repacked_ = 0;  // the buffer of repacked output 0
  std::vector<size_t> halves_;  // outputs of a half type that lie as the walk
  int64_t first_half_ = 0;      // the buffer of the first of them
  std::vector<int64_t> sides_;  // TransposedSide of each repacked output
  int64_t staged_ = 0;          // elements
  std::vector<Tensor> tensors_;
  std::vector<Tensor> outputs_;
  std::vector<uint64_t> seeds_;
  std::vector<T> uniform_;  // scalars after Prepare
  std::vector<T*> uniform_at_;
  std::byte* scratch_ = nullptr;
};

extern template class TileEngine<float>;
extern template class TileEngine<double>;

}  // namespace moka::tile
