// The arithmetic of weights.cpp over vectors of any length; included by one source for each instruction set. The result
// y = A^T [(G w G^T) . (B^T x B)] A is linear in w, so dw = G^T [sum over tiles (B^T x B) . (A dy A^T)] G with the
// matrices of points.h.
#pragma once

#include <cstdint>

#include "layers/kernels/cpu/winograd/points.h"
#include "layers/kernels/cpu/winograd/weights_lanes.h"
#include "layers/kernels/cpu/winograd/weights_tiles.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {
namespace {

// G^T of six values: the adjoint of TransformFilter.
template <class V>
MOKA_INLINE void TransformFilterAdjoint(const V (&u)[6], V (&g)[3]) {
  const V third = V::All(1.0F / 3);
  const V sum_a = u[1] + u[2];
  const V sum_b = u[3] + u[4];
  g[0] = Fma(V::All(1.0F / 6), sum_b, Fnma(V::All(2.0F / 3), sum_a, u[0]));
  g[1] = Fnma(V::All(kA * (2.0F / 3)), u[1] - u[2], V::All(kB / 6) * (u[3] - u[4]));
  g[2] = Fma(third, sum_b - sum_a, u[5]);
}

template <class V>
MOKA_INLINE void TransformFilterAdjoint(const V (&u)[5], V (&g)[2]) {
  constexpr float kDistance = kC * kC - kD * kD;
  g[0] = Fnma(V::All(0.5F / (kD * kDistance)), u[2] - u[3], V::All(0.5F / (kC * kDistance)) * (u[0] - u[1]));
  g[1] = Fma(V::All(0.5F / kDistance), (u[0] + u[1]) - (u[2] + u[3]), u[4]);
}

// kRows channels c by kPanels vectors of k, kept in registers over all tiles.
// The sums of a block stay in registers while all tiles pass; their lines of u are prefetched at the start, as they are
// needed at the end.
template <class V, int kRows, int kPanels>
void MultiplyBlock(const Product& p, const float* v, const float* m, float* u) {
  V sums[kRows][kPanels];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) {
      sums[i][j] = V::Zero();
      __builtin_prefetch(u + j * p.u_k_stride + i * V::kLanes, 1);
    }
  }
  for (int64_t t = 0; t < p.tiles; ++t, v += V::kLanes, m += V::kLanes) {
    V right[kPanels];
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) right[j] = V::Load(m + j * p.m_stride);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V left = V::Broadcast(v + i);
#pragma GCC unroll 4
      for (int j = 0; j < kPanels; ++j) sums[i][j] = Fma(left, right[j], sums[i][j]);
    }
  }
  if (p.accumulate) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanels; ++j) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sums[i][j] = sums[i][j] + V::Load(u + j * p.u_k_stride + i * V::kLanes);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kPanels; ++j) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) sums[i][j].Store(u + j * p.u_k_stride + i * V::kLanes);
  }
}

// All c of the product by kPanels vectors of k from k_panel on.
template <class V, int kRows, int kPanels>
MOKA_INLINE void MultiplyColumns(const Product& p, int64_t k_panel) {
  const float* m = p.m + k_panel * p.m_stride;
  for (int64_t c = 0; c < p.c_panels; ++c) {
    float* u = p.u + c * p.u_stride + k_panel * p.u_k_stride;
    for (int row = 0; row < V::kLanes; row += kRows) {
      MultiplyBlock<V, kRows, kPanels>(p, p.v + c * p.v_stride + row, m, u + row * V::kLanes);
    }
  }
}

// Half a panel of c by three of k: 8 x 3 = 24 sums of the 32 registers of AVX-512, 4 x 3 = 12 of the 16 of AVX2. Rests
// are split so that no single panel is left where two and two will do.
template <class V>
void MultiplyPoint(const Product& p) {
  constexpr int kRows = V::kLanes / 2;
  int64_t k = 0;
  for (; p.k_panels - k >= 5 || p.k_panels - k == 3; k += 3) MultiplyColumns<V, kRows, 3>(p, k);
  for (; p.k_panels - k >= 2; k += 2) MultiplyColumns<V, kRows, 2>(p, k);
  if (k < p.k_panels) MultiplyColumns<V, V::kLanes, 1>(p, k);
}

// The copies of several threads are added as they are read, in their order.
template <class V, int kTaps>
void InverseBlock(const float* u, int64_t point_stride, int64_t copies, int64_t copy_stride, float* dw,
                  int64_t row_stride, int64_t column_stride) {
  constexpr int kSide = kTaps + 3;
  for (int c = 0; c < V::kLanes; ++c, u += V::kLanes, dw += V::kLanes) {
    V columns[kTaps][kSide];
    for (int j = 0; j < kSide; ++j) {
      V d[kSide];
      V g[kTaps];
      for (int i = 0; i < kSide; ++i) {
        const float* from = u + (i * kSide + j) * point_stride;
        d[i] = V::Load(from);
        for (int64_t copy = 1; copy < copies; ++copy) d[i] = d[i] + V::Load(from + copy * copy_stride);
      }
      TransformFilterAdjoint(d, g);
      for (int i = 0; i < kTaps; ++i) columns[i][j] = g[i];
    }
    for (int i = 0; i < kTaps; ++i) {
      V g[kTaps];
      TransformFilterAdjoint(columns[i], g);
      for (int j = 0; j < kTaps; ++j) g[j].Store(dw + i * row_stride + j * column_stride);
    }
  }
}

template <class V, class T, int kTaps>
constexpr WeightsLanes kWeightsLanes = {.lanes = V::kLanes,
                                        .taps = kTaps,
                                        .element_bytes = sizeof(T),
                                        .transform_x = TransformTiles<V, T, kTaps, InputTile, false>,
                                        .transform_dy = TransformTiles<V, T, kTaps, GradientTile, false>,
                                        .transform_and_sum_dy = TransformTiles<V, T, kTaps, GradientTile, true>,
                                        .multiply = MultiplyPoint<V>,
                                        .inverse = InverseBlock<V, kTaps>};

}  // namespace
}  // namespace moka::winograd
#endif
