// Loops over a tile of gates that the cells of recurrences share. Included by gru_cell.cpp and lstm_cell.cpp only,
// which compile them for every instruction set.
#pragma once

#include <cstdint>

#include "layers/kernels/cpu/tiles/tile_math.h"

namespace moka {
namespace {

MOKA_INLINE void Sigmoids(float* x, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] = tile::Sigmoid(x[j]);
}

MOKA_INLINE void Tanhs(float* x, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] = tile::Tanh(x[j]);
}

// The values of a gate's sums, for the gradient.
template <class Tile>
MOKA_INLINE void SaveGate(const Tile& t, int gate) {
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* from = t.sums[gate] + row * t.width;
    float* to = t.gates[gate] + row * t.x_stride;
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) to[j] = from[j];
  }
}

}  // namespace
}  // namespace moka
