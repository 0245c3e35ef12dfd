// The inner loop of a matrix product, for one vector width: a tile of a few rows and vectors of columns stays in
// registers while both packed operands stream by (Goto, van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008). Included by gemm_<width>.cpp only, each compiled for its instructions; so nothing here may
// come from std.
#pragma once

#include <cstdint>

#include "layers/kernels/cpu/matmul/gemm.h"

namespace moka::gemm {
namespace {

// Steps of k between asking for a line of b and using it: about what the second level of cache takes to answer.
inline constexpr int kAhead = 8;
inline constexpr int kLine = 16;  // floats

template <class V>
inline V Load(const float* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}

template <class V>
inline void Store(float* to, const V& v) {
  __builtin_memcpy(to, &v, sizeof(V));
}

// How a tile's sums take a word of a and a vector of words of b: as float32.
template <class V>
struct FloatWords {
  using Vector = V;
  static inline void Add(const float& a, const V& b, V& sum) { sum += a * b; }
};

// C [kRows, kVectors vectors] = A B. a [depth,kRows], b [depth, kVectors vectors].
// The loop over k is the only one that is not unrolled. What comes after it (bias, sum, ReLU) works on registers.
template <class Words, int kVectors, int kRows>
void TileOf(const TileArgs& t) {
  using V = typename Words::Vector;
  constexpr int kWidth = sizeof(V) / sizeof(float);
  V sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sums[r][v] = V{};
  }
  const float* a = t.a;
  const float* b = t.b;
  const auto step = [&]() __attribute__((always_inline)) {
    V row[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      row[v] = Load<V>(b + v * kWidth);
      __builtin_prefetch(b + (kAhead * kVectors + v) * kWidth);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) Words::Add(a[r], row[v], sums[r][v]);
    }
    a += kRows;
    b += kVectors * kWidth;
  };
  // Else the lines of c come while the sums are made: not all at once, for while they do b's cannot.
  const int64_t wanted = t.next != nullptr ? t.next_steps : kRows;
  const int64_t asks = wanted < t.depth ? wanted : t.depth;
  const float* next = t.next != nullptr ? t.next : t.c;
  const int64_t next_stride = t.next != nullptr ? t.next_stride : t.c_stride;
  for (int64_t k = asks; k > 0; --k) {
    __builtin_prefetch(next);
    __builtin_prefetch(next + kLine);
    next += next_stride;
    step();
  }
  for (int64_t k = t.depth - asks; k > 0; --k) step();
  float* c = t.c;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, c += t.c_stride) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      V y = sums[r][v];
      if (t.bias != nullptr) y += Load<V>(t.bias + v * kWidth);
      if (t.adds) y += Load<V>(c + v * kWidth);
      if (t.relu) y = y > 0 ? y : V{};
      Store(c + v * kWidth, y);
    }
  }
}

// One function a height, up to kRows.
template <class Words, int kVectors, int kRows>
void AnyTile(const TileArgs& t, int rows) {
  if (rows == kRows) return TileOf<Words, kVectors, kRows>(t);
  if constexpr (kRows > 1) AnyTile<Words, kVectors, kRows - 1>(t, rows);
}

}  // namespace
}  // namespace moka::gemm
