// The instruction set of the tile interpreter: each step is one loop over at most kTileLength elements in cache,
// compiled for AVX-512, AVX2 and any x86-64 or other machine, chosen once when the program starts. All three give the
// same bits.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/expression.h"

namespace moka::tile {

// Elements of a tile: 2 KiB of floats, so that a dozen registers stay in the first-level cache.
inline constexpr int64_t kTileLength = 512;
// Sums keep this many partial sums, whatever the vector width.
inline constexpr int64_t kLanes = 32;

// y = op(a, b, c); operands are indices into Frame::at. kInput copies a.
struct Step {
  ScalarOp op = ScalarOp::kInput;
  uint8_t scalars = 0;  // bit i: operand i is one value for the whole tile
  int32_t a = -1;
  int32_t b = -1;
  int32_t c = -1;
  int32_t y = -1;
  uint64_t stream = 0;  // kRand; a is then an index into seeds
};

template <class T>
struct Frame {
  T* const* at = nullptr;           // where each location lies for this tile
  const uint64_t* seeds = nullptr;  // keys of rand
  const uint64_t* index = nullptr;  // logical index of each element; null: first, first + 1, ...
  uint64_t first = 0;
};

template <class T>
struct TileFunctions {
  std::string_view name;
  void (*run)(const Step* steps, int64_t count, const Frame<T>& frame, int64_t n);
  // lanes[i % kLanes] += x[i].
  void (*sum)(const T* x, int64_t n, double* lanes);
  // y[i] += x[i] of one row after another; rows lie `stride` apart.
  void (*add)(const T* x, int64_t stride, int64_t rows, int64_t n, double* y);
};

// Returns the functions that this machine can run, the fastest first; for float and double.
template <class T>
const std::vector<TileFunctions<T>>& RunnableFunctions();
template <class T>
const TileFunctions<T>& FunctionsHere() {
  return RunnableFunctions<T>().front();
}

}  // namespace moka::tile
