// Tiles of x and dy on their way into the product of weights_body.h, over vectors of any length; included by it alone.
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

template <class V>
MOKA_INLINE void TransformOutputAdjoint(const V (&y)[4], V (&m)[5]) {
  const V square_c = V::All(kC * kC);
  const V square_d = V::All(kD * kD);
  const V even_c = Fma(square_c, y[2], y[0]);
  const V even_d = Fma(square_d, y[2], y[0]);
  const V odd_c = Fma(square_c, y[3], y[1]);
  const V odd_d = Fma(square_d, y[3], y[1]);
  m[0] = Fma(V::All(kC), odd_c, even_c);
  m[1] = Fnma(V::All(kC), odd_c, even_c);
  m[2] = Fma(V::All(kD), odd_d, even_d);
  m[3] = Fnma(V::All(kD), odd_d, even_d);
  m[4] = y[3];
}

// Which side of the product a tile belongs to: a patch of x, or 4x4 of dy.
template <int kTaps>
struct InputTile {
  static constexpr int kSide = kTaps + 3;
  static constexpr int kPoints = kTaps + 3;  // along an edge
  template <class V>
  static MOKA_INLINE void Transform(const V (&d)[kSide], V (&to)[kPoints]) {
    TransformInput(d, to);
  }
};
template <int kTaps>
struct GradientTile {
  static constexpr int kSide = 4;
  static constexpr int kPoints = kTaps + 3;
  template <class V>
  static MOKA_INLINE void Transform(const V (&d)[kSide], V (&to)[kPoints]) {
    TransformOutputAdjoint(d, to);
  }
};

// The rows of a tile, zeros where they are outside the image, and its columns inside [begin, end).
template <int kSide>
struct TileRows {
  const float* rows[kSide];
  int64_t begin;
  int64_t end;
};

// Steps of 1 or 2 that it takes to cover n elements, which may be below zero.
MOKA_INLINE int64_t StepsOf(int64_t n, int64_t step) { return step == 1 ? n : (n + 1) >> 1; }

template <class V, class Tile>
MOKA_INLINE TileRows<Tile::kSide> FindRows(const TiledPlane& plane, const float* image, int64_t row, int64_t column) {
  constexpr int kSide = Tile::kSide;
  alignas(64) static constexpr float kZeros[2 * kSide * V::kLanes] = {};
  TileRows<kSide> found;
  found.begin = Larger(0, StepsOf(-column, plane.step));
  found.end = Smaller(kSide, StepsOf(plane.width - column, plane.step));
  for (int64_t i = 0; i < kSide; ++i) {
    const int64_t y = row + i * plane.step;
    const bool is_inside = y >= 0 && y < plane.height && found.begin < found.end;
    found.rows[i] = is_inside ? image + (y * plane.width + column) * V::kLanes : kZeros;
  }
  return found;
}

// One tile from memory to its points, one dimension after the other. The sum of its elements is added to `sum`.
template <class V, class Tile, bool kSum>
MOKA_INLINE void TransformTile(const TileRows<Tile::kSide>& tile, int64_t pixel_stride, float* to, int64_t point_stride,
                               V& sum) {
  constexpr int kSide = Tile::kSide;
  constexpr int kPoints = Tile::kPoints;
  alignas(64) float columns[kPoints * kSide * V::kLanes];
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j) {
    V d[kSide];
    V t[kPoints];
    if (j >= tile.begin && j < tile.end) {
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) d[i] = V::Load(tile.rows[i] + j * pixel_stride);
      Tile::Transform(d, t);
      if constexpr (kSum) sum = sum + ((d[0] + d[1]) + (d[2] + d[3]));
    } else {
#pragma GCC unroll 6
      for (int i = 0; i < kPoints; ++i) t[i] = V::Zero();
    }
#pragma GCC unroll 6
    for (int i = 0; i < kPoints; ++i) t[i].Store(columns + (i * kSide + j) * V::kLanes);
  }
#pragma GCC unroll 6
  for (int i = 0; i < kPoints; ++i) {
    V d[kSide];
    V t[kPoints];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) d[j] = V::Load(columns + (i * kSide + j) * V::kLanes);
    Tile::Transform(d, t);
#pragma GCC unroll 6
    for (int j = 0; j < kPoints; ++j) t[j].Store(to + (i * kPoints + j) * point_stride);
  }
}

// Asks for what the tile below needs and this one does not: the planes come from memory, and the few rows of a
// segment are too short for the processor to notice.
template <class V, int kSide>
MOKA_INLINE void PrefetchBelow(const TiledPlane& plane, const float* image, int64_t row, int64_t column, bool is_last) {
  if (is_last) {
    image += plane.image_stride;
    row = -kSide * plane.step;
  }
  const float* from = image + ((row + kSide * plane.step) * plane.width + column) * V::kLanes;
  const int64_t pixel_stride = plane.step * V::kLanes;
  for (int64_t i = 0; i < 4; ++i, from += plane.width * pixel_stride) {
    for (int64_t j = kSide - 4; j < kSide; j += 16 / V::kLanes) __builtin_prefetch(from + j * pixel_stride);
  }
}

template <class V, class Tile, bool kSum>
void TransformTiles(const TiledPlane& plane, int64_t first, int64_t last, float* to, int64_t point_stride, float* sum) {
  constexpr int kSide = Tile::kSide;
  int64_t j = first % plane.tile_columns;
  int64_t i = first / plane.tile_columns % plane.tile_rows;
  int64_t n = first / plane.tile_columns / plane.tile_rows;
  V total = V::Zero();
  for (int64_t t = first; t < last; ++t, to += V::kLanes) {
    const float* image = plane.data + n * plane.image_stride;
    const int64_t row = 4 * i * plane.step - plane.pad_top;
    const int64_t column = 4 * j * plane.step - plane.pad_left;
    PrefetchBelow<V, kSide>(plane, image, row, column, i + 1 == plane.tile_rows);
    const TileRows<kSide> rows = FindRows<V, Tile>(plane, image, row, column);
    TransformTile<V, Tile, kSum>(rows, plane.step * V::kLanes, to, point_stride, total);
    if (++j < plane.tile_columns) continue;
    j = 0;
    if (++i < plane.tile_rows) continue;
    i = 0;
    ++n;
  }
  if constexpr (kSum) total.Store(sum);
}

}  // namespace
}  // namespace moka::winograd
#endif
