// Tiles of x and dy on their way into the product of weights_body.h, over vectors of any length; included by it alone.
#pragma once

#include <cstdint>

#include "layers/kernels/cpu/winograd/narrow_points.h"
#include "layers/kernels/cpu/winograd/points.h"
#include "layers/kernels/cpu/winograd/tile_kinds.h"
#include "layers/kernels/cpu/winograd/weights_lanes.h"

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

// The same for two taps, at the points +-c, +-d and infinity.
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

// A tile of kTileHeight x kTileWidth results, and which side of the product it belongs to: a patch of x, or dy.
// Points that a narrow tile takes no part in are neither computed nor stored.
template <int kTaps, int kTileHeight, int kTileWidth>
struct TilePoints {
  static constexpr int kPoints = kTaps + 3;  // along an edge
  static constexpr bool TakesRow(int point) { return TakesPoint(kTileHeight, point); }
  static constexpr bool TakesColumn(int point) { return TakesPoint(kTileWidth, point); }
};
template <int kTaps, int kTileHeight, int kTileWidth>
struct InputTile : TilePoints<kTaps, kTileHeight, kTileWidth> {
  static constexpr int kHeight = kTileHeight + kTaps - 1;
  static constexpr int kWidth = kTileWidth + kTaps - 1;
  template <class V, int kSide>
  static MOKA_INLINE void Transform(const V (&d)[kSide], V (&to)[kTaps + 3]) {
    TransformInput(d, to);
  }
};
template <int kTaps, int kTileHeight, int kTileWidth>
struct GradientTile : TilePoints<kTaps, kTileHeight, kTileWidth> {
  static constexpr int kHeight = kTileHeight;
  static constexpr int kWidth = kTileWidth;
  template <class V, int kSide>
  static MOKA_INLINE void Transform(const V (&d)[kSide], V (&to)[kTaps + 3]) {
    TransformOutputAdjoint(d, to);
  }
};

// The rows of a tile, zeros where they are outside the image, and its columns inside [begin, end).
template <class T, int kHeight>
struct TileRows {
  const T* rows[kHeight];
  int64_t begin;
  int64_t end;
};

// Rows outside the image point at zeros, so that the loop over a tile's columns has no test of rows.
template <class V, class Tile, class T>
MOKA_INLINE TileRows<T, Tile::kHeight> FindRows(const TiledPlane& plane, const T* image, int64_t row, int64_t column) {
  alignas(64) static constexpr T kZeros[2 * Tile::kWidth * V::kLanes] = {};
  TileRows<T, Tile::kHeight> found;
  found.begin = Larger(0, StepsOf(-column, plane.step));
  found.end = Smaller(Tile::kWidth, StepsOf(plane.width - column, plane.step));
  for (int64_t i = 0; i < Tile::kHeight; ++i) {
    const int64_t y = row + i * plane.step;
    const bool is_inside = y >= 0 && y < plane.height && found.begin < found.end;
    found.rows[i] = is_inside ? image + (y * plane.width + column) * V::kLanes : kZeros;
  }
  return found;
}

// One tile from memory to its points, one dimension after the other. The sum of its elements is added to `sum`.
template <class V, class Tile, bool kSum, class T>
MOKA_INLINE void TransformTile(const TileRows<T, Tile::kHeight>& tile, int64_t pixel_stride, float* to,
                               int64_t point_stride, V& sum) {
  constexpr int kHeight = Tile::kHeight;
  constexpr int kWidth = Tile::kWidth;
  constexpr int kPoints = Tile::kPoints;
  alignas(64) float columns[kPoints * kWidth * V::kLanes];
#pragma GCC unroll 6
  for (int j = 0; j < kWidth; ++j) {
    V d[kHeight];
    V t[kPoints];
    if (j >= tile.begin && j < tile.end) {
#pragma GCC unroll 6
      for (int i = 0; i < kHeight; ++i) d[i] = V::Load(tile.rows[i] + j * pixel_stride);
      Tile::Transform(d, t);
      if constexpr (kSum) {
        V column = d[0];
#pragma GCC unroll 6
        for (int i = 1; i < kHeight; ++i) column = column + d[i];
        sum = sum + column;
      }
    } else {
#pragma GCC unroll 6
      for (int i = 0; i < kPoints; ++i) t[i] = V::Zero();
    }
#pragma GCC unroll 6
    for (int i = 0; i < kPoints; ++i) {
      if (Tile::TakesRow(i)) t[i].Store(columns + (i * kWidth + j) * V::kLanes);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kPoints; ++i) {
    if (!Tile::TakesRow(i)) continue;
    V d[kWidth];
    V t[kPoints];
#pragma GCC unroll 6
    for (int j = 0; j < kWidth; ++j) d[j] = V::Load(columns + (i * kWidth + j) * V::kLanes);
    Tile::Transform(d, t);
#pragma GCC unroll 6
    for (int j = 0; j < kPoints; ++j) {
      if (Tile::TakesColumn(j)) t[j].Store(to + (i * kPoints + j) * point_stride);
    }
  }
}

// Asks for what the tile below, or the next image's first one, needs and this one does not: the planes come from
// memory, and the few rows of a segment are too short for the processor to notice.
template <class V, class Tile, class T>
MOKA_INLINE void PrefetchBelow(const TiledPlane& plane, const T* image, int64_t row, int64_t column, bool is_last) {
  row = is_last ? kTile * plane.kind.row * plane.step : row + Tile::kHeight * plane.step;
  if (is_last) image += plane.image_stride;
  const T* from = image + (row * plane.width + column) * V::kLanes;
  const int64_t pixel_stride = plane.step * V::kLanes;
  for (int64_t i = 0; i < 4; ++i, from += plane.width * pixel_stride) {
    for (int64_t j = Larger(0, Tile::kWidth - 4); j < Tile::kWidth; j += 16 / V::kLanes) {
      __builtin_prefetch(from + j * pixel_stride);
    }
  }
}

// Tiles come in row-major order of their kind; Place counts rows, columns and images without divisions.
template <class V, class T, class Tile, bool kSum>
void TransformKind(const TiledPlane& plane, int64_t first, int64_t last, float* to, int64_t point_stride, float* sum) {
  Place place(plane.kind, first);
  V total = kSum ? V::Load(sum) : V::Zero();
  for (int64_t t = first; t < last; ++t, to += V::kLanes, place.Next(plane.kind)) {
    const T* image = static_cast<const T*>(plane.data) + place.image * plane.image_stride;
    const int64_t row = kTile * place.row * plane.step - plane.pad_top;
    const int64_t column = kTile * place.column * plane.step - plane.pad_left;
    PrefetchBelow<V, Tile>(plane, image, row, column, place.row + 1 == plane.kind.row + plane.kind.rows);
    const TileRows<T, Tile::kHeight> rows = FindRows<V, Tile>(plane, image, row, column);
    TransformTile<V, Tile, kSum>(rows, plane.step * V::kLanes, to, point_stride, total);
  }
  if constexpr (kSum) total.Store(sum);
}

// Returns the transform of one of the 16 kinds of three taps, by height and width.
// A table, as a tile's height and width must be known when its loops are unrolled.
template <class V, class T, template <int, int, int> class Side, bool kSum, int... kKind>
MOKA_INLINE WeightsLanes::Transform TransformOf(const TileKind& kind, Indices<kKind...> /*kinds*/) {
  static constexpr WeightsLanes::Transform kFunctions[] = {
      TransformKind<V, T, Side<3, 1 + kKind / kTile, 1 + kKind % kTile>, kSum>...};
  return kFunctions[(kind.height - 1) * kTile + kind.width - 1];
}

// Two taps have whole tiles only.
template <class V, class T, int kTaps, template <int, int, int> class Side, bool kSum>
void TransformTiles(const TiledPlane& plane, int64_t first, int64_t last, float* to, int64_t point_stride, float* sum) {
  if constexpr (kTaps == 2) {
    TransformKind<V, T, Side<2, kTile, kTile>, kSum>(plane, first, last, to, point_stride, sum);
  } else {
    const IndicesTo<kTile * kTile>::Type kinds;
    TransformOf<V, T, Side, kSum>(plane.kind, kinds)(plane, first, last, to, point_stride, sum);
  }
}

}  // namespace
}  // namespace moka::winograd
#endif
