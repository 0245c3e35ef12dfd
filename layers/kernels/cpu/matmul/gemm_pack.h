// Packing of operands for one vector width: runs of floats, or squares of a vector's length turned in registers.
// Included by gemm_<width>.cpp only, as gemm_tile.h is.
#pragma once

#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {
namespace {

template <class V>
constexpr int kLanes = sizeof(V) / sizeof(float);

inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// 0, 1, .. as template arguments.
template <int... kIndex>
struct Indices {};
template <int kCount, int... kIndex>
struct Counted : Counted<kCount - 1, kCount - 1, kIndex...> {};
template <int... kIndex>
struct Counted<0, kIndex...> {
  using Type = Indices<kIndex...>;
};

// Two rows of a square, kStep apart: their blocks of kStep columns off the diagonal change places.
template <int kStep, class V, int... kIndex>
inline void Exchange(V& upper, V& lower, Indices<kIndex...>) {
  constexpr int kCount = sizeof...(kIndex);
  const V a = upper;
  const V b = lower;
  upper = __builtin_shufflevector(a, b, ((kIndex & kStep) != 0 ? kCount + kIndex - kStep : kIndex)...);
  lower = __builtin_shufflevector(a, b, ((kIndex & kStep) != 0 ? kCount + kIndex : kIndex + kStep)...);
}

// Transposes a square: first its quarters, then theirs.
// log2(L) rounds of L/2 exchanges: 64 shuffles of registers for 16 x 16, and no store is scattered.
template <int kStep, class V>
inline void TurnSquare(V* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<V>; ++i) {
    if ((i & kStep) == 0) Exchange<kStep>(rows[i], rows[i + kStep], typename Counted<kLanes<V>>::Type());
  }
  if constexpr (kStep > 1) TurnSquare<kStep / 2>(rows);
}

// to[p][r] = from[r][p] for at most a vector of rows r and exactly a vector of columns p. A store may reach beyond the
// last row, over lines that come later, but not beyond `end`.
template <class V>
inline void TurnRows(const float* from, int64_t stride, int64_t rows, float* to, int64_t to_stride, const float* end) {
  V square[kLanes<V>];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes<V>; ++r) square[r] = Load<V>(from + (r < rows ? r : 0) * stride);
  TurnSquare<kLanes<V> / 2>(square);
#pragma GCC unroll 16
  for (int p = 0; p < kLanes<V>; ++p, to += to_stride) {
    if (rows == kLanes<V> || to + kLanes<V> <= end) {
      Store(to, square[p]);
    } else {
      float line[kLanes<V>];
      Store(line, square[p]);
      for (int64_t r = 0; r < rows; ++r) to[r] = line[r];
    }
  }
}

// to[p][r] = from[r][p], from's rows `stride` apart, r < rows, p < k; to's lines to_stride apart.
template <class V>
void Turn(const float* from, int64_t stride, int64_t rows, int64_t k, float* to, int64_t to_stride) {
  constexpr int64_t kSide = kLanes<V>;
  const float* end = to + (k - 1) * to_stride + rows;
  // Columns that fill no square. They come first, since what the squares' stores leave behind lies before them.
  for (int64_t p = k / kSide * kSide; p < k; ++p) {
    for (int64_t r = 0; r < rows; ++r) to[p * to_stride + r] = from[r * stride + p];
  }
  end -= k % kSide * to_stride;
  for (int64_t p = 0; p + kSide <= k; p += kSide) {
    if (p % kLine == 0) {
      for (int64_t r = 0; r < rows; ++r) __builtin_prefetch(from + r * stride + p + 4 * kLine);
    }
    for (int64_t begin = 0; begin < rows; begin += kSide) {
      const int64_t r = rows < kSide ? 0 : Smaller(begin, rows - kSide);  // the last rows may be some before again
      TurnRows<V>(from + r * stride + p, stride, Smaller(kSide, rows), to + p * to_stride + r, to_stride, end);
    }
  }
}

// A run of floats in vectors, of which the last may overlap the one before; what is shorter in vectors of half the
// size.
template <class V>
inline void Copy(const float* from, int64_t n, float* to) {
  constexpr int64_t kCount = kLanes<V>;
  if (n >= kCount) {
    for (int64_t i = 0; i < n; i += kCount) {
      const int64_t at = Smaller(i, n - kCount);
      Store(to + at, Load<V>(from + at));
    }
  } else if constexpr (kCount > 4) {
    using Half = float __attribute__((vector_size(sizeof(V) / 2)));
    Copy<Half>(from, n, to);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

inline void Zero(float* from, const float* to) {
  for (; from < to; ++from) *from = 0.0F;
}

// Panels of kWidth columns, padded with zeros, so that the tile's loop knows no edge.
template <class V, int kWidth>
void PackPanels(const Matrix& b, int64_t k, int64_t n, float* packed) {
  for (int64_t at = 0; at < n && b.column_stride != 1; at += kWidth) {
    const int64_t columns = Smaller(kWidth, n - at);
    Turn<V>(b.data + at * b.column_stride, b.column_stride, columns, k, packed + at * k, kWidth);
    for (int64_t p = 0; p < k && columns < kWidth; ++p) {
      Zero(packed + at * k + p * kWidth + columns, packed + at * k + (p + 1) * kWidth);
    }
  }
  // Rows of b are read as far as they go; the row some steps on is asked for, since no hardware guesses such a stride.
  constexpr int64_t kRowsAhead = 4;
  for (int64_t p = 0; p < k && b.column_stride == 1; ++p) {
    const float* from = b.data + p * b.row_stride;
    const float* next = from + (p + kRowsAhead < k ? kRowsAhead * b.row_stride : 0);
    for (int64_t at = 0; at < n; at += kWidth) {
      const int64_t columns = Smaller(kWidth, n - at);
      float* to = packed + at * k + p * kWidth;
      for (int64_t line = 0; line < columns; line += kLine) __builtin_prefetch(next + at + line);
      Copy<V>(from + at, columns, to);
      Zero(to + columns, to + kWidth);
    }
  }
}

// Tiles of a are not padded: the tile function exists for every number of rows.
template <class V>
void PackRows(const Matrix& a, int64_t rows, int64_t k, float* packed) {
  if (a.column_stride == 1) return Turn<V>(a.data, a.row_stride, rows, k, packed, rows);
  if (a.row_stride == 1) {
    // Whole vectors where what they read too much is the column after, and what they write too much comes later.
    const int64_t whole = a.column_stride + rows >= kLanes<V> ? k * rows - kLanes<V> : -1;
    for (int64_t p = 0; p < k; ++p) {
      const float* from = a.data + p * a.column_stride;
      if (rows <= kLanes<V> && p + 1 < k && p * rows <= whole) {
        Store(packed + p * rows, Load<V>(from));
      } else {
        Copy<V>(from, rows, packed + p * rows);
      }
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t r = 0; r < rows; ++r) packed[p * rows + r] = a.data[p * a.column_stride + r * a.row_stride];
  }
}

}  // namespace
}  // namespace moka::gemm
