// The arithmetic of weights.cpp over vectors of any length; included by one source for each instruction set. The result
// y = A^T [(G w G^T) . (B^T x B)] A is linear in w, so dw = G^T [sum over tiles (B^T x B) . (A dy A^T)] G with the
// matrices of points.h.
#pragma once

#include <cstdint>

#include "layers/cpu/winograd/points.h"
#include "layers/cpu/winograd/weights_lanes.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {
namespace {

// A of four values: the adjoint of TransformOutput.
template <class V>
MOKA_INLINE void TransformOutputAdjoint(const V (&y)[4], V (&m)[6]) {
  const V half = V::All(0.5F);
  const V two = V::All(2.0F);
  const V even_a = Fma(half, y[2], y[0]);
  const V even_b = Fma(two, y[2], y[0]);
  const V odd_a = Fma(half, y[3], y[1]);
  const V odd_b = Fma(two, y[3], y[1]);
  m[0] = y[0];
  m[1] = Fma(V::All(kA), odd_a, even_a);
  m[2] = Fnma(V::All(kA), odd_a, even_a);
  m[3] = Fma(V::All(kB), odd_b, even_b);
  m[4] = Fnma(V::All(kB), odd_b, even_b);
  m[5] = y[3];
}

// G^T of six values: the adjoint of TransformFilter.
template <class V>
MOKA_INLINE void TransformFilterAdjoint(const V (&u)[6], V (&g)[3]) {
  const V third = V::All(1.0F / 3);
  const V sum_a = u[1] + u[2];
  const V sum_b = u[3] + u[4];
  g[0] = Fma(V::All(1.0F / 6), sum_b, Fnma(V::All(2.0F / 3), sum_a, u[0]));
  g[1] = Fnma(V::All(kA * (2.0F / 3)), u[1] - u[2], V::All(kB / 6) * (u[3] - u[4]));
  g[2] = Fma(third, sum_b - sum_a, u[5]);
}

// Which side of the product a tile belongs to: 6x6 of x, or 4x4 of dy.
struct InputTile {
  static constexpr int kSide = 6;
  template <class V>
  static MOKA_INLINE void Transform(const V (&d)[6], V (&to)[6]) {
    TransformInput(d, to);
  }
};
struct GradientTile {
  static constexpr int kSide = 4;
  template <class V>
  static MOKA_INLINE void Transform(const V (&d)[4], V (&to)[6]) {
    TransformOutputAdjoint(d, to);
  }
};

// One tile from memory to the 6x6 points, one dimension after the other.
template <class V, class Tile>
MOKA_INLINE void TransformTile(const float* from, int64_t row_stride, float* to, int64_t point_stride) {
  constexpr int kSide = Tile::kSide;
  alignas(64) float columns[6 * kSide * V::kLanes];
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j) {
    V d[kSide];
    V t[6];
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) d[i] = V::Load(from + i * row_stride + j * V::kLanes);
    Tile::Transform(d, t);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) t[i].Store(columns + (i * kSide + j) * V::kLanes);
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V d[kSide];
    V t[6];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) d[j] = V::Load(columns + (i * kSide + j) * V::kLanes);
    Tile::Transform(d, t);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) t[j].Store(to + (i * 6 + j) * point_stride);
  }
}

// The part of a tile inside the image, zeros around it.
template <class V, int kSide>
void CopyInside(const TiledPlane& plane, const float* image, int64_t row, int64_t column, float* tile) {
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) {
      const int64_t y = row + i;
      const int64_t x = column + j;
      const bool inside = y >= 0 && y < plane.height && x >= 0 && x < plane.width;
      const V value = inside ? V::Load(image + (y * plane.width + x) * V::kLanes) : V::Zero();
      value.Store(tile + (i * kSide + j) * V::kLanes);
    }
  }
}

// The sum of a tile of dy.
template <class V>
MOKA_INLINE V SumTile(const float* from, int64_t row_stride) {
  V rows[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float* row = from + i * row_stride;
    rows[i] = (V::Load(row) + V::Load(row + V::kLanes)) + (V::Load(row + 2 * V::kLanes) + V::Load(row + 3 * V::kLanes));
  }
  return (rows[0] + rows[1]) + (rows[2] + rows[3]);
}

template <class V, class Tile>
void TransformTiles(const TiledPlane& plane, int64_t first, int64_t last, float* to, int64_t point_stride, float* sum) {
  constexpr int kSide = Tile::kSide;
  alignas(64) float edge[kSide * kSide * V::kLanes];
  const int64_t plane_row = plane.width * V::kLanes;
  int64_t j = first % plane.tile_columns;
  int64_t i = first / plane.tile_columns % plane.tile_rows;
  int64_t n = first / plane.tile_columns / plane.tile_rows;
  V total = V::Zero();
  for (int64_t t = first; t < last; ++t, to += V::kLanes) {
    const float* image = plane.data + n * plane.image_stride;
    const int64_t row = 4 * i - plane.pad_top;
    const int64_t column = 4 * j - plane.pad_left;
    const float* from = image + row * plane_row + column * V::kLanes;
    int64_t row_stride = plane_row;
    if (row < 0 || column < 0 || row + kSide > plane.height || column + kSide > plane.width) {
      CopyInside<V, kSide>(plane, image, row, column, edge);
      from = edge;
      row_stride = kSide * V::kLanes;
    }
    TransformTile<V, Tile>(from, row_stride, to, point_stride);
    if constexpr (kSide == 4) {
      if (sum != nullptr) total = total + SumTile<V>(from, row_stride);
    }
    if (++j < plane.tile_columns) continue;
    j = 0;
    if (++i < plane.tile_rows) continue;
    i = 0;
    ++n;
  }
  if (sum != nullptr) total.Store(sum);
}

// kRows channels c by kPanels vectors of k, kept in registers over all tiles.
template <class V, int kRows, int kPanels>
void MultiplyBlock(const Product& p, const float* v, const float* m, float* u) {
  V sums[kRows][kPanels];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) sums[i][j] = V::Zero();
  }
  for (int64_t t = 0; t < p.tiles; ++t, v += V::kLanes, m += V::kLanes) {
    V right[kPanels];
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) right[j] = V::Load(m + j * p.m_stride);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V left = V::Broadcast(v + i);
#pragma GCC unroll 4
      for (int j = 0; j < kPanels; ++j) sums[i][j] = Fma(left, right[j], sums[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kPanels; ++j) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      float* to = u + (j * V::kLanes + i) * V::kLanes;
      const V sum = p.accumulate ? V::Load(to) + sums[i][j] : sums[i][j];
      sum.Store(to);
    }
  }
}

// All c of the product by kPanels vectors of k from k_panel on.
template <class V, int kRows, int kPanels>
MOKA_INLINE void MultiplyColumns(const Product& p, int64_t k_panel) {
  const float* m = p.m + k_panel * p.m_stride;
  for (int64_t c = 0; c < p.c_panels; ++c) {
    float* u = p.u + c * p.u_stride + k_panel * V::kLanes * V::kLanes;
    for (int row = 0; row < V::kLanes; row += kRows) {
      MultiplyBlock<V, kRows, kPanels>(p, p.v + c * p.v_stride + row, m, u + row * V::kLanes);
    }
  }
}

template <class V>
void MultiplyPoint(const Product& p) {
  constexpr int kRows = V::kLanes / 2;
  int64_t k = 0;
  for (; p.k_panels - k >= 5 || p.k_panels - k == 3; k += 3) MultiplyColumns<V, kRows, 3>(p, k);
  for (; p.k_panels - k >= 2; k += 2) MultiplyColumns<V, kRows, 2>(p, k);
  if (k < p.k_panels) MultiplyColumns<V, V::kLanes, 1>(p, k);
}

template <class V>
void InverseBlock(const float* u, int64_t point_stride, int64_t copies, int64_t copy_stride, float* dw) {
  for (int c = 0; c < V::kLanes; ++c, u += V::kLanes, dw += V::kLanes) {
    V columns[3][6];
    for (int j = 0; j < 6; ++j) {
      V d[6];
      V g[3];
      for (int i = 0; i < 6; ++i) {
        const float* from = u + (i * 6 + j) * point_stride;
        d[i] = V::Load(from);
        for (int64_t copy = 1; copy < copies; ++copy) d[i] = d[i] + V::Load(from + copy * copy_stride);
      }
      TransformFilterAdjoint(d, g);
      for (int i = 0; i < 3; ++i) columns[i][j] = g[i];
    }
    for (int i = 0; i < 3; ++i) {
      V g[3];
      TransformFilterAdjoint(columns[i], g);
      for (int j = 0; j < 3; ++j) g[j].Store(dw + (i * 3 + j) * V::kLanes * V::kLanes);
    }
  }
}

template <class V>
constexpr WeightsLanes kWeightsLanes = {.lanes = V::kLanes,
                                        .transform_x = TransformTiles<V, InputTile>,
                                        .transform_dy = TransformTiles<V, GradientTile>,
                                        .multiply = MultiplyPoint<V>,
                                        .inverse = InverseBlock<V>};

}  // namespace
}  // namespace moka::winograd
#endif
