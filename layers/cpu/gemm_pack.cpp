// Packing of operands: rows of four floats, or squares of sixteen turned in registers.
#include <algorithm>
#include <cstring>

#include "layers/cpu/gemm.h"

namespace moka::gemm {
namespace {

using Four = float __attribute__((vector_size(16)));

Four Load(const float* from) {
  Four v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

// to[p][r] = from[r][p] for four rows and columns.
inline void TurnSquare(const float* from, int64_t stride, float* to, int64_t to_stride) {
  const Four a = Load(from);
  const Four b = Load(from + stride);
  const Four c = Load(from + 2 * stride);
  const Four d = Load(from + 3 * stride);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Four turned[] = {
      __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
      __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int p = 0; p < 4; ++p) std::memcpy(to + p * to_stride, &turned[p], sizeof(Four));
}

// to[p][r] = from[r][p], from's rows `stride` apart, r < rows, p < k.
void Turn(const float* from, int64_t stride, int64_t rows, int64_t k, float* to, int64_t to_stride) {
  constexpr int64_t kStep = 16;  // a cache line of each row
  for (int64_t p = 0; p < k; p += kStep) {
    const int64_t depth = std::min(kStep, k - p);
    for (int64_t r = 0; r < rows; ++r) __builtin_prefetch(from + r * stride + p + 4 * kStep);
    for (int64_t begin = 0; begin < rows; begin += 4) {
      const int64_t r = rows < 4 ? begin : std::min(begin, rows - 4);  // the last four may overlap those before
      const float* line = from + r * stride + p;
      float* at = to + p * to_stride + r;
      int64_t q = 0;
      for (; r + 4 <= rows && q + 4 <= depth; q += 4) TurnSquare(line + q, stride, at + q * to_stride, to_stride);
      for (; q < depth; ++q) {
        for (int64_t i = 0; i < std::min<int64_t>(4, rows - r); ++i) at[q * to_stride + i] = line[i * stride + q];
      }
    }
  }
}

// A run of floats in fours, of which the last may overlap the one before.
inline void Copy(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; n >= 4 && i < n; i += 4) {
    const int64_t at = std::min(i, n - 4);
    const Four v = Load(from + at);
    std::memcpy(to + at, &v, sizeof(v));
  }
  for (int64_t i = 0; n < 4 && i < n; ++i) to[i] = from[i];
}

}  // namespace

void PackPanels(const Matrix& b, int64_t k, int64_t n, const Tiles& tiles, float* packed) {
  const int64_t width = tiles.columns;
  for (int64_t at = 0; at < n && b.column_stride != 1; at += width) {
    const int64_t columns = std::min(width, n - at);
    Turn(b.data + at * b.column_stride, b.column_stride, columns, k, packed + at * k, width);
    for (int64_t p = 0; p < k; ++p)
      std::fill(packed + at * k + p * width + columns, packed + at * k + (p + 1) * width, 0.0F);
  }
  // Rows of b are read as far as they go; the row some steps on is asked for, since no hardware guesses such a stride.
  constexpr int64_t kRowsAhead = 4;
  for (int64_t p = 0; p < k && b.column_stride == 1; ++p) {
    const float* from = b.data + p * b.row_stride;
    const float* next = from + (p + kRowsAhead < k ? kRowsAhead * b.row_stride : 0);
    for (int64_t at = 0; at < n; at += width) {
      const int64_t columns = std::min(width, n - at);
      float* to = packed + at * k + p * width;
      for (int64_t line = 0; line < columns; line += 16) __builtin_prefetch(next + at + line);
      Copy(from + at, columns, to);
      std::fill(to + columns, to + width, 0.0F);
    }
  }
}

void PackRows(const Matrix& a, int64_t rows, int64_t k, float* packed) {
  if (a.column_stride == 1) return Turn(a.data, a.row_stride, rows, k, packed, rows);
  if (a.row_stride == 1) {
    constexpr int64_t kColumnsAhead = 8;
    for (int64_t p = 0; p < k; ++p) {
      const float* from = a.data + p * a.column_stride;
      const float* next = from + (p + kColumnsAhead < k ? kColumnsAhead * a.column_stride : 0);
      __builtin_prefetch(next);
      __builtin_prefetch(next + rows - 1);
      Copy(from, rows, packed + p * rows);
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t r = 0; r < rows; ++r) packed[p * rows + r] = a.data[p * a.column_stride + r * a.row_stride];
  }
}

}  // namespace moka::gemm
