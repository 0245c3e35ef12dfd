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

// The rows of a tile, zeros where they are outside the image, and its columns inside [begin, end).
template <int kSide>
struct TileRows {
  const float* rows[kSide];
  int64_t begin;
  int64_t end;
};

template <class V, class Tile>
MOKA_INLINE TileRows<Tile::kSide> FindRows(const TiledPlane& plane, const float* image, int64_t row, int64_t column) {
  constexpr int kSide = Tile::kSide;
  alignas(64) static constexpr float kZeros[kSide * V::kLanes] = {};
  TileRows<kSide> found;
  found.begin = column < 0 ? -column : 0;
  found.end = column + kSide > plane.width ? plane.width - column : kSide;
  for (int64_t i = 0; i < kSide; ++i) {
    const bool is_inside = row + i >= 0 && row + i < plane.height && found.begin < found.end;
    found.rows[i] = is_inside ? image + ((row + i) * plane.width + column) * V::kLanes : kZeros;
  }
  return found;
}

// One tile from memory to the 6x6 points, one dimension after the other. The sum of its elements is added to `sum`.
template <class V, class Tile, bool kSum>
MOKA_INLINE void TransformTile(const TileRows<Tile::kSide>& tile, float* to, int64_t point_stride, V& sum) {
  constexpr int kSide = Tile::kSide;
  alignas(64) float columns[6 * kSide * V::kLanes];
#pragma GCC unroll 6
  for (int j = 0; j < kSide; ++j) {
    V d[kSide];
    V t[6];
    if (j >= tile.begin && j < tile.end) {
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) d[i] = V::Load(tile.rows[i] + j * V::kLanes);
      Tile::Transform(d, t);
      if constexpr (kSum) sum = sum + ((d[0] + d[1]) + (d[2] + d[3]));
    } else {
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) t[i] = V::Zero();
    }
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

// Asks for what the tile below needs and this one does not: the planes come from memory, and the few rows of a
// segment are too short for the processor to notice.
template <class V, int kSide>
MOKA_INLINE void PrefetchBelow(const TiledPlane& plane, const float* image, int64_t row, int64_t column, bool is_last) {
  if (is_last) {
    image += plane.image_stride;
    row = -kSide;
  }
  const float* from = image + ((row + kSide) * plane.width + column) * V::kLanes;
  for (int64_t i = 0; i < 4; ++i, from += plane.width * V::kLanes) {
    for (int64_t j = kSide - 4; j < kSide; j += 16 / V::kLanes) __builtin_prefetch(from + j * V::kLanes);
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
    const int64_t row = 4 * i - plane.pad_top;
    const int64_t column = 4 * j - plane.pad_left;
    PrefetchBelow<V, kSide>(plane, image, row, column, i + 1 == plane.tile_rows);
    TransformTile<V, Tile, kSum>(FindRows<V, Tile>(plane, image, row, column), to, point_stride, total);
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
