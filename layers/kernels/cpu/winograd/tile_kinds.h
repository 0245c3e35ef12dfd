// Kinds of tiles and where tiles lie, for loops over them.
#pragma once

#include "layers/kernels/cpu/winograd/tile.h"
#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

// Steps of 1 or 2 that it takes to cover n elements, which may be below zero.
MOKA_INLINE int64_t StepsOf(int64_t n, int64_t step) { return step == 1 ? n : (n + 1) >> 1; }

// Where a tile lies: image, row and column of tiles; steps to its successor without divisions.
struct Place {
  int64_t image;
  int64_t row;
  int64_t column;

  // tile: of the kind's.
  MOKA_INLINE Place(const TileKind& kind, int64_t tile)
      : image(tile / (kind.rows * kind.columns)),
        row(kind.row + tile / kind.columns % kind.rows),
        column(kind.column + tile % kind.columns) {}
  MOKA_INLINE void Next(const TileKind& kind) {
    if (++column < kind.column + kind.columns) return;
    column = kind.column;
    if (++row < kind.row + kind.rows) return;
    row = kind.row;
    ++image;
  }
};

// The outputs and the points of a kind's tiles, along an edge the points kPatch of whole ones.
template <int kPoints, int kTileHeight, int kTileWidth>
struct Kind {
  static constexpr int kPatch = kPoints;
  static constexpr int kHeight = kTileHeight;
  static constexpr int kWidth = kTileWidth;
  static constexpr int kPatchHeight = kHeight + kPatch - kTile;
  static constexpr int kPatchWidth = kWidth + kPatch - kTile;
};

}  // namespace moka::winograd
#endif
