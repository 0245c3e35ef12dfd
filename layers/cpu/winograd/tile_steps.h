// The steps of tile.h for one width of registers. Included by one source for each width.
#pragma once

#include "layers/cpu/winograd/points.h"
#include "layers/cpu/winograd/tile.h"
#include "layers/cpu/winograd/tile_multiply.h"
#include "layers/cpu/winograd/tile_weights.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

MOKA_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
MOKA_INLINE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Where a tile lies: image, row and column of tiles; steps to its successor without divisions.
struct Place {
  int64_t image;
  int64_t row;
  int64_t column;

  Place(const Frame& f, int64_t tile)
      : image(tile / (f.tile_rows * f.tile_columns)),
        row(tile / f.tile_columns % f.tile_rows),
        column(tile % f.tile_columns) {}
  MOKA_INLINE void Next(const Frame& f) {
    if (++column < f.tile_columns) return;
    column = 0;
    if (++row < f.tile_rows) return;
    row = 0;
    ++image;
  }
};

// Rows [kFirst, kFirst + 3) of the 36 points. rows: six of pixels, from column `begin` on.
template <class V, int kFirst>
MOKA_INLINE void TransformHalf(const float* const (&rows)[kPatch], int64_t begin, int64_t end, float* v,
                               int64_t v_stride) {
  V columns[3][kPatch];
#pragma GCC unroll 6
  for (int j = 0; j < kPatch; ++j) {
    V d[kPatch];
    for (int i = 0; i < kPatch; ++i) {
      d[i] = j < begin || j >= end ? V::Zero() : V::Load(rows[i] + (j - begin) * V::kLanes);
    }
    V t[kPatch];
    TransformInput(d, t);
    for (int i = 0; i < 3; ++i) columns[i][j] = t[kFirst + i];
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    V t[kPatch];
    TransformInput(columns[i], t);
    for (int j = 0; j < kPatch; ++j) t[j].Store(v + ((kFirst + i) * kPatch + j) * v_stride);
  }
}

// One patch of 6x6 pixels to 36 points; what lies outside the plane is zero.
template <class V>
MOKA_INLINE void TransformPatch(const Frame& f, const Place& place, const float* plane, float* v, int64_t v_stride) {
  alignas(64) static constexpr float kZeros[kPatch * V::kLanes] = {};
  const int64_t top = place.row * kTile - f.pad_top;
  const int64_t left = place.column * kTile - f.pad_left;
  const int64_t begin = Smaller(kPatch, Larger(0, -left));
  const int64_t end = Larger(begin, Smaller(kPatch, f.width - left));
  const float* rows[kPatch];
  for (int64_t i = 0; i < kPatch; ++i) {
    const bool is_inside = top + i >= 0 && top + i < f.height && begin < end;
    rows[i] = is_inside ? plane + ((top + i) * f.width + left + begin) * V::kLanes : kZeros;
  }
  // Three rows of points at a time: as many as the registers hold.
  TransformHalf<V, 0>(rows, begin, end, v, v_stride);
  TransformHalf<V, 3>(rows, begin, end, v, v_stride);
}

template <class V>
void Input(const InputStep& s) {
  const Frame& f = *s.frame;
  const int64_t begin = s.tiles.count * s.group / s.tiles.groups;
  const int64_t size = s.tiles.count * (s.group + 1) / s.tiles.groups - begin;
  float* group = s.v + begin * s.blocks * V::kLanes;
  for (int64_t block = s.block_begin; block < s.block_end; ++block) {
    Place place(f, s.tiles.first + begin);
    for (int64_t t = 0; t < size; ++t, place.Next(f)) {
      const float* plane = s.x + place.image * f.x_image_stride + block * f.x_block_stride;
      TransformPatch<V>(f, place, plane, group + (block * size + t) * V::kLanes, s.v_stride);
    }
  }
}

// One tile of one vector of channels: 36 products to 4x4 outputs, of which `height` x `width` exist.
template <class V>
MOKA_INLINE void TransformProducts(const OutputStep& s, const float* m, V bias, int64_t at, int64_t height,
                                   int64_t width) {
  const V floor = V::All(s.floor);
  V columns[kTile][kPatch];
#pragma GCC unroll 6
  for (int j = 0; j < kPatch; ++j) {
    V d[kPatch];
    V t[kTile];
    for (int i = 0; i < kPatch; ++i) d[i] = V::Load(m + (i * kPatch + j) * s.m_stride);
    TransformOutput(d, t);
    for (int i = 0; i < kTile; ++i) columns[i][j] = t[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTile; ++i) {
    if (i >= height) break;
    V t[kTile];
    TransformOutput(columns[i], t);
    const int64_t row = at + i * s.frame->out_width * V::kLanes;
    for (int j = 0; j < kTile; ++j) {
      if (j >= width) break;
      V y = t[j] + bias;
      if (s.summand != nullptr) y = y + V::Load(s.summand + row + j * V::kLanes);
      // The order of the operands keeps NaN.
      Max(floor, y).Store(s.y + row + j * V::kLanes);
    }
  }
}

template <class V>
void Output(const OutputStep& s) {
  const Frame& f = *s.frame;
  Place place(f, s.tiles.first);
  for (int64_t t = 0; t < s.tiles.count; ++t, place.Next(f)) {
    const int64_t top = place.row * kTile;
    const int64_t left = place.column * kTile;
    for (int64_t k = 0; k < s.vectors; ++k) {
      const int64_t at = place.image * f.y_image_stride + k * f.y_block_stride + (top * f.out_width + left) * V::kLanes;
      TransformProducts<V>(s, s.m + (t * s.vectors + k) * V::kLanes, V::Load(s.bias + k * V::kLanes), at,
                           Smaller(kTile, f.out_height - top), Smaller(kTile, f.out_width - left));
    }
  }
}

}  // namespace moka::winograd
#endif
