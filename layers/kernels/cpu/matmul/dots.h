// A few rows times a matrix read by its rows: as many dot products, for one vector width. Each is as fast as its
// operand comes from memory, and its order of sums is that of k alone, whoever computes it. Included by
// gemm_<width>.cpp only, each compiled for its instructions; so nothing here may come from std.
#pragma once

#include <cstdint>

#include "layers/kernels/cpu/matmul/gemm.h"
#include "layers/kernels/cpu/matmul/gemm_tile.h"

namespace moka::gemm {
namespace {

template <int kFloats>
struct HalfOf;
template <>
struct HalfOf<16> {
  using Type = float __attribute__((vector_size(32)));
};
template <>
struct HalfOf<8> {
  using Type = float __attribute__((vector_size(16)));
};
template <>
struct HalfOf<4> {
  using Type = float __attribute__((vector_size(8)));
};

// The lanes' sum: halves are added until two floats are left.
template <class V>
inline float LanesSum(const V& v) {
  constexpr int kFloats = sizeof(V) / sizeof(float);
  if constexpr (kFloats == 2) {
    return v[0] + v[1];
  } else {
    using Half = typename HalfOf<kFloats>::Type;
    const auto* const words = reinterpret_cast<const float*>(&v);
    const Half sum = Load<Half>(words) + Load<Half>(words + kFloats / 2);
    return LanesSum(sum);
  }
}

// kRows rows of a with kColumns rows of b: all of their products are in registers while both stream by once.
template <class V, int kRows, int kColumns>
inline void DotsOf(const DotArgs& d, int64_t column) {
  constexpr int kWidth = sizeof(V) / sizeof(float);
  V sums[kRows][kColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) sums[r][c] = V{};
  }
  const float* const b = d.b + column * d.k;
  int64_t i = 0;
  for (; i + kWidth <= d.k; i += kWidth) {
    V a[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) a[r] = Load<V>(d.a + r * d.k + i);
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const V of_b = Load<V>(b + c * d.k + i);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r][c] += a[r] * of_b;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      float y = LanesSum(sums[r][c]);
      for (int64_t k = i; k < d.k; ++k) y += d.a[r * d.k + k] * b[c * d.k + k];
      if (d.bias != nullptr) y += d.bias[column + c];
      d.y[r * d.n + column + c] = d.relu && !(y > 0) ? 0.0F : y;
    }
  }
}

template <class V, int kRows, int kColumns>
void DotRows(const DotArgs& d, int64_t begin, int64_t end) {
  int64_t column = begin;
  for (; column + kColumns <= end; column += kColumns) DotsOf<V, kRows, kColumns>(d, column);
  for (; column < end; ++column) DotsOf<V, kRows, 1>(d, column);
}

// Eight sums and more at once, so that multiplications do not wait for each other.
template <class V>
void Dots(const DotArgs& d, int64_t begin, int64_t end) {
  switch (d.m) {
    case 1: return DotRows<V, 1, 8>(d, begin, end);
    case 2: return DotRows<V, 2, 4>(d, begin, end);
    case 3: return DotRows<V, 3, 4>(d, begin, end);
    default: return DotRows<V, 4, 2>(d, begin, end);
  }
}

}  // namespace
}  // namespace moka::gemm
