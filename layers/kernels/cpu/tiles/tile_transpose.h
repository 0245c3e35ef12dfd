// Blocks of floats laid the other way round, for outputs whose blocks lie transposed in a second layout.
#pragma once

#include <cstdint>

namespace moka::tile {

// to[j*n + i] = from[i*n + j] for i, j < n. `streams`: past the caches, for results too large to be found there again;
// StreamsDone() then makes them visible. Requires: n a multiple of 4; `to` on a boundary of 16 bytes.
void TransposeBlock(const float* from, int64_t n, float* to, bool streams);
void StreamsDone();

}  // namespace moka::tile
