// The steps of tile.h for one width of registers. Included by one source for each width.
#pragma once

#include "layers/kernels/cpu/winograd/narrow_points.h"
#include "layers/kernels/cpu/winograd/points.h"
#include "layers/kernels/cpu/winograd/tile.h"
#include "layers/kernels/cpu/winograd/tile_kinds.h"
#include "layers/kernels/cpu/winograd/tile_multiply.h"
#include "layers/kernels/cpu/winograd/tile_weights.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

// Rows [kFirst, kFirst + kRows) of the points. rows: those of the patch, from column `begin` on.
template <class V, class K, int kFirst, int kRows, class T>
MOKA_INLINE void TransformRows(const T* const (&rows)[K::kPatchHeight], int64_t pixel_stride, int64_t begin,
                               int64_t end, float* v, int64_t v_stride) {
  // B^T d B as two passes of the one-dimensional transform: first down the columns of the patch, then along the rows of
  // the result. A lane is a channel, so that neither needs a shuffle.
  V columns[kRows][K::kPatchWidth];
#pragma GCC unroll 6
  for (int j = 0; j < K::kPatchWidth; ++j) {
    V d[K::kPatchHeight];
    for (int i = 0; i < K::kPatchHeight; ++i) {
      d[i] = j < begin || j >= end ? V::Zero() : V::Load(rows[i] + (j - begin) * pixel_stride);
    }
    V t[K::kPatch];
    TransformInput(d, t);
    for (int i = 0; i < kRows; ++i) {
      if (TakesPoint(K::kHeight, kFirst + i)) columns[i][j] = t[kFirst + i];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    if (!TakesPoint(K::kHeight, kFirst + i)) continue;
    V t[K::kPatch];
    TransformInput(columns[i], t);
    for (int j = 0; j < K::kPatch; ++j) {
      if (TakesPoint(K::kWidth, j)) t[j].Store(v + ((kFirst + i) * K::kPatch + j) * v_stride);
    }
  }
}

// Three taps have a stride of 1 and one phase: said to the compiler, because small planes feel every multiplication of
// an address (planes of 8x8 to 32x32: 3 to 5 %).
template <int kPatch>
MOKA_INLINE int64_t StepOf(int64_t step) {
  return kPatch == 6 ? 1 : step;
}

// One patch of pixels to its points; what lies outside the plane is zero.
template <class V, class K, class T>
MOKA_INLINE void TransformPatch(const Frame& f, const Place& place, int64_t phase, const T* plane, float* v,
                                int64_t v_stride) {
  constexpr int kPatch = K::kPatch;
  alignas(64) static constexpr T kZeros[2 * kPatch * V::kLanes] = {};
  const int64_t step = StepOf<kPatch>(f.x_step);
  const int64_t top = place.row * kTile * step + (phase >> 1) - f.pad_top;
  const int64_t left = place.column * kTile * step + (phase & 1) - f.pad_left;
  const int64_t begin = Smaller(K::kPatchWidth, Larger(0, StepsOf(-left, step)));
  const int64_t end = Larger(begin, Smaller(K::kPatchWidth, StepsOf(f.width - left, step)));
  const T* rows[K::kPatchHeight];
  for (int64_t i = 0; i < K::kPatchHeight; ++i) {
    const int64_t row = top + i * step;
    const bool is_inside = row >= 0 && row < f.height && begin < end;
    rows[i] = is_inside ? plane + (row * f.width + left + begin * step) * V::kLanes : kZeros;
  }
  const int64_t pixel_stride = step * V::kLanes;
  // As many rows of points at a time as the registers hold.
  constexpr int kRows = V::kRegisters > kPatch * kPatch ? kPatch : 3;
  TransformRows<V, K, 0, kRows>(rows, pixel_stride, begin, end, v, v_stride);
  if constexpr (kRows < kPatch) {
    TransformRows<V, K, kRows, kPatch - kRows>(rows, pixel_stride, begin, end, v, v_stride);
  }
}

// v is [point][group][block][phase][tile of the group][L]: the multiply step reads the tiles of a group one after
// another for each channel.
template <class V, class T, class K>
void InputOfKind(const InputStep& s) {
  const Frame& f = *s.frame;
  const int64_t begin = s.tiles.count * s.group / s.tiles.groups;
  const int64_t size = s.tiles.count * (s.group + 1) / s.tiles.groups - begin;
  const int64_t phases = StepOf<K::kPatch>(f.x_phases);
  float* group = s.v + (s.tiles.before + begin) * s.blocks * phases * V::kLanes;
  for (int64_t block = s.block_begin; block < s.block_end; ++block) {
    Place place(s.tiles.kind, s.tiles.first + begin);
    for (int64_t t = 0; t < size; ++t, place.Next(s.tiles.kind)) {
      const T* plane = static_cast<const T*>(s.x) + place.image * f.x_image_stride + block * f.x_block_stride;
      for (int64_t phase = 0; phase < phases; ++phase) {
        float* v = group + ((block * phases + phase) * size + t) * V::kLanes;
        TransformPatch<V, K>(f, place, phase, plane, v, s.v_stride);
      }
    }
  }
}

// One tile of one vector of channels: products at the points to its outputs, of which `height` x `width` exist.
template <class V, class T, class K>
MOKA_INLINE void TransformProducts(const OutputStep& s, const float* m, V bias, int64_t at, int64_t height,
                                   int64_t width) {
  const V floor = V::All(s.floor);
  V columns[K::kHeight][K::kPatch];
#pragma GCC unroll 6
  for (int j = 0; j < K::kPatch; ++j) {
    if (!TakesPoint(K::kWidth, j)) continue;
    V d[K::kPatch];
    V t[K::kHeight];
    for (int i = 0; i < K::kPatch; ++i) {
      if (TakesPoint(K::kHeight, i)) d[i] = V::Load(m + (i * K::kPatch + j) * s.m_stride);
    }
    TransformOutput(d, t);
    for (int i = 0; i < K::kHeight; ++i) columns[i][j] = t[i];
  }
  const int64_t pixel_stride = StepOf<K::kPatch>(s.frame->y_step) * V::kLanes;
  const int64_t row_stride = s.frame->y_width * pixel_stride;
  const T* summand = static_cast<const T*>(s.summand);
  T* y_at = static_cast<T*>(s.y) + at;
#pragma GCC unroll 4
  for (int i = 0; i < K::kHeight; ++i) {
    if (i >= height) break;
    V t[K::kWidth];
    TransformOutput(columns[i], t);
    const int64_t row = i * row_stride;
    for (int j = 0; j < K::kWidth; ++j) {
      if (j >= width) break;
      V y = t[j] + bias;
      if (summand != nullptr) y = y + V::Load(summand + at + row + j * pixel_stride);
      // The order of the operands keeps NaN.
      Max(floor, y).Store(y_at + row + j * pixel_stride);
    }
  }
}

// Tiles at the edge compute results that do not exist; they are not stored.
template <class V, class T, class K>
void OutputOfKind(const OutputStep& s) {
  const Frame& f = *s.frame;
  Place place(s.tiles.kind, s.tiles.first);
  for (int64_t t = s.tiles.before; t < s.tiles.before + s.tiles.count; ++t, place.Next(s.tiles.kind)) {
    const int64_t top = place.row * kTile;
    const int64_t left = place.column * kTile;
    const int64_t pixel = f.y_first + (top * f.y_width + left) * StepOf<K::kPatch>(f.y_step);
    for (int64_t k = 0; k < s.vectors; ++k) {
      const int64_t at = place.image * f.y_image_stride + k * f.y_block_stride + pixel * V::kLanes;
      TransformProducts<V, T, K>(s, s.m + (t * s.vectors + k) * V::kLanes, V::Load(s.bias + k * V::kLanes), at,
                                 Smaller(K::kHeight, f.out_height - top), Smaller(K::kWidth, f.out_width - left));
    }
  }
}

// Three taps have 16 kinds of tiles, by height and width; two have whole ones only.
template <class V, class T, int... kKind>
MOKA_INLINE void InputOfAny(const InputStep& s, Indices<kKind...> /*kinds*/) {
  static constexpr void (*kFunctions[])(const InputStep&) = {
      InputOfKind<V, T, Kind<6, 1 + kKind / kTile, 1 + kKind % kTile>>...};
  kFunctions[(s.tiles.kind.height - 1) * kTile + s.tiles.kind.width - 1](s);
}
template <class V, class T, int... kKind>
MOKA_INLINE void OutputOfAny(const OutputStep& s, Indices<kKind...> /*kinds*/) {
  static constexpr void (*kFunctions[])(const OutputStep&) = {
      OutputOfKind<V, T, Kind<6, 1 + kKind / kTile, 1 + kKind % kTile>>...};
  kFunctions[(s.tiles.kind.height - 1) * kTile + s.tiles.kind.width - 1](s);
}

template <class V, class T, int kTaps>
void Input(const InputStep& s) {
  if constexpr (kTaps == 2) return InputOfKind<V, T, Kind<5, kTile, kTile>>(s);
  if constexpr (kTaps == 3) InputOfAny<V, T>(s, IndicesTo<kTile * kTile>::Type{});
}
template <class V, class T, int kTaps>
void Output(const OutputStep& s) {
  if constexpr (kTaps == 2) return OutputOfKind<V, T, Kind<5, kTile, kTile>>(s);
  if constexpr (kTaps == 3) OutputOfAny<V, T>(s, IndicesTo<kTile * kTile>::Type{});
}

template <class V, class T, int kTaps>
constexpr TileFunctions kTileFunctions = {.lanes = V::kLanes,
                                          .points = (kTaps + 3) * (kTaps + 3),
                                          .group_tiles = kGroupTiles<V>,
                                          .element_bytes = sizeof(T),
                                          .input = Input<V, T, kTaps>,
                                          .weights = Weights<V, kTaps>,
                                          .multiply = Multiply<V, kTaps + 3>,
                                          .output = Output<V, T, kTaps>};

}  // namespace moka::winograd
#endif
