// The arithmetic of weights.cpp for one instruction set. L is the number of floats in a vector, which is also
// the channel block of x, dy and of everything below. Private to layers/kernels/cpu; the sources behind these tables
// are compiled for wider instructions than the rest, so this header has plain types only.
#pragma once

#include <cstdint>

#include "layers/kernels/cpu/winograd/tile.h"

namespace moka::winograd {

// One channel block of a tensor [N,C,H,W] in channel blocks, and tiles of one kind that it is cut into: tile (n, i, j)
// of the grid begins at row 4i*step - pad_top and column 4j*step - pad_left, and its rows and columns are `step` apart.
struct TiledPlane {
  const void* data = nullptr;  // [H][W][L] of image 0
  int64_t image_stride = 0;    // in elements
  int64_t height = 0;
  int64_t width = 0;
  int64_t pad_top = 0;
  int64_t pad_left = 0;
  int64_t step = 1;  // 1 or 2
  TileKind kind;
};

// u[c][k] = (or +=) sum over tiles t of v[t][c] * m[t][k], at one point.
struct Product {
  const float* v = nullptr;  // [c_panels] of [tiles][L], v_stride apart
  const float* m = nullptr;  // [k_panels] of [tiles][L], m_stride apart
  float* u = nullptr;        // [c_panels][k_panels] of [L][L]
  int64_t v_stride = 0;
  int64_t m_stride = 0;
  int64_t u_stride = 0;    // between c panels
  int64_t u_k_stride = 0;  // between k panels
  int64_t tiles = 0;
  int64_t c_panels = 0;
  int64_t k_panels = 0;
  bool accumulate = false;
};

// The functions for windows of `taps` x `taps` and stride 1.
struct WeightsLanes {
  int lanes = 0;
  int taps = 0;
  int element_bytes = 0;  // of x and dy
  // Transforms tiles [first, last) of the kind: element (point p, tile t) at to[p * point_stride + (t - first) * L].
  // The last also adds the tiles' elements to sum[L].
  using Transform = void (*)(const TiledPlane& plane, int64_t first, int64_t last, float* to, int64_t point_stride,
                             float* sum);
  Transform transform_x = nullptr;
  Transform transform_dy = nullptr;
  Transform transform_and_sum_dy = nullptr;
  void (*multiply)(const Product& product) = nullptr;
  // Blocks dw[c][k] of L x L, one for each tap, row_stride and column_stride apart: the inverse transform of the sum of
  // `copies` blocks, copy_stride apart.
  void (*inverse)(const float* u, int64_t point_stride, int64_t copies, int64_t copy_stride, float* dw,
                  int64_t row_stride, int64_t column_stride) = nullptr;

  int64_t points() const { return (taps + 3) * (taps + 3); }
};

// taps: 3 or 2; x and dy are of bfloat16 or else float. Requires: the processor has the instructions. Null where the
// compiler has not.
const WeightsLanes* WeightsLanesAvx512(int taps, bool is_half);
const WeightsLanes* WeightsLanesAvx2(int taps, bool is_half);

}  // namespace moka::winograd
