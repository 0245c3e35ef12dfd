// The arithmetic of narrow.cpp for one instruction set: a few results a pixel, each a sum over lanes of channels.
// Private to layers/kernels/cpu; the sources behind these tables are compiled for wider instructions than the rest, so
// this header has plain types only.
#pragma once

#include <cstdint>

namespace moka::narrow {

inline constexpr int kPixels = 8;  // results that are made together, neighbours but for the stride

// A row of results of one phase of columns: result i of channel c is the sum over `rows` window rows t and `taps` taps
// j of y[t][blocks][i - j] times w[t][j][blocks][c], over the lanes of all channel blocks.
struct Row {
  const float* const* y = nullptr;  // [rows] of [blocks][..][L], block_stride apart, at result 0 and tap 0
  const float* const* w = nullptr;  // [rows] of [taps][blocks][channels][L]
  int64_t rows = 0;
  int64_t taps = 0;
  int64_t blocks = 0;
  int64_t block_stride = 0;
  int64_t channels = 0;
  int64_t count = 0;  // results; y has values (or zeros) up to the next multiple of kPixels
  float* x = nullptr;
  int64_t step = 0;            // between results
  int64_t channel_stride = 0;  // between channels of x
};

struct Lanes {
  int lanes = 0;
  void (*row)(const Row& row) = nullptr;
};

// Requires: the processor has the instructions. Null where the compiler has not.
const Lanes* LanesAvx512();
const Lanes* LanesAvx2();

}  // namespace moka::narrow
