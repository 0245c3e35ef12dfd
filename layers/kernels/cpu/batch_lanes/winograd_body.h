// The transforms of winograd.h for one width of registers. Included by one source for each width.
#pragma once

#include "layers/kernels/cpu/batch_lanes/transforms.h"
#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::batch_lanes {

// The points +a and -a of the input: with b and c the other two, s = b^2 + c^2 and q = b^2 c^2.
template <class V>
MOKA_INLINE void InputPair(const V (&d)[kPoints], float a, float s, float q, float* v, int64_t v_stride) {
  const V even = Fma(V::All(q), d[2], Fnma(V::All(s), d[4], d[6]));
  const V odd = Fma(V::All(q), d[1], Fnma(V::All(s), d[3], d[5]));
  Fma(V::All(a), odd, even).Store(v);
  Fnma(V::All(a), odd, even).Store(v + v_stride);
}

// B^T d for the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity: 5.25 = 1 + 4 + 1/4 is the sum of the squares of the
// three pairs.
template <class V>
MOKA_INLINE void InputTile(const V (&d)[kPoints], float* v, int64_t v_stride) {
  const V most = V::All(5.25F);
  (Fma(most, d[2] - d[4], d[6]) - d[0]).Store(v);
  InputPair(d, 1.0F, 4.25F, 1.0F, v + v_stride, v_stride);
  InputPair(d, 2.0F, 1.25F, 0.25F, v + 3 * v_stride, v_stride);
  InputPair(d, 0.5F, 5.0F, 4.0F, v + 5 * v_stride, v_stride);
  (Fma(most, d[3] - d[5], d[7]) - d[1]).Store(v + 7 * v_stride);
}

// Tiles overlap by four inputs: a tile of four outputs reads eight. Positions outside the row are zeros.
template <class V>
void WinogradInput(const float* x, int64_t width, int64_t pad, int64_t tiles, float* v, int64_t v_stride) {
  for (int64_t t = 0; t < tiles; ++t, v += V::kLanes) {
    const int64_t first = t * kTileWidth - pad;
    V d[kPoints];
    for (int64_t i = 0; i < kPoints; ++i) {
      const bool is_inside = first + i >= 0 && first + i < width;
      d[i] = is_inside ? V::Load(x + (first + i) * V::kLanes) : V::Zero();
    }
    InputTile(d, v, v_stride);
  }
}

// A^T m: output k takes the k-th power of each point. Rows that are no multiple of four write what they have.
template <class V>
void WinogradOutput(const float* m, int64_t m_stride, int64_t width, float bias, const float* lanes, float floor,
                    float* y) {
  const V least = V::All(floor);
  // Plus zero: padding is never -0.
  const V start = Fma(V::All(bias), V::Load(lanes), V::Zero());
  for (int64_t at = 0; at < width; at += kTileWidth, m += V::kLanes) {
    const auto point = [&](int p) { return V::Load(m + p * m_stride); };
    const V sum_1 = point(1) + point(2);
    const V sum_2 = point(3) + point(4);
    const V sum_half = point(5) + point(6);
    const V odd_1 = point(1) - point(2);
    const V odd_2 = point(3) - point(4);
    const V odd_half = point(5) - point(6);
    const V out[kTileWidth] = {
        ((point(0) + sum_1) + (sum_2 + sum_half)) + start,
        Fma(V::All(0.5F), odd_half, Fma(V::All(2.0F), odd_2, odd_1)) + start,
        Fma(V::All(0.25F), sum_half, Fma(V::All(4.0F), sum_2, sum_1)) + start,
        (Fma(V::All(0.125F), odd_half, Fma(V::All(8.0F), odd_2, odd_1)) + point(7)) + start,
    };
    // The order of the operands keeps NaN.
    for (int64_t i = 0; i < kTileWidth && at + i < width; ++i) Max(least, out[i]).Store(y + (at + i) * V::kLanes);
  }
}

// The filter's transform for four taps, which dy's elements are here: the polynomial dy at the points a and -a, times
// n, one over the product of the point's distances to the others.
template <class V>
MOKA_INLINE void GradientPair(const V (&d)[kTileWidth], float a, float n, float* to, int64_t point_stride) {
  const V even = Fma(V::All(a * a), d[2], d[0]) * V::All(n);
  const V odd = Fma(V::All(a * a), d[3], d[1]) * V::All(a * n);
  (even + odd).Store(to);
  (even - odd).Store(to + point_stride);
}

template <class V>
void WinogradGradient(const float* dy, int64_t width, float* to, int64_t step, int64_t point_stride) {
  for (int64_t at = 0; at < width; at += kTileWidth, to += step) {
    V d[kTileWidth];
    for (int64_t i = 0; i < kTileWidth; ++i) d[i] = at + i < width ? V::Load(dy + (at + i) * V::kLanes) : V::Zero();
    (V::Zero() - d[0]).Store(to);
    GradientPair(d, 1.0F, -1.0F / 4.5F, to + point_stride, point_stride);
    GradientPair(d, 2.0F, 1.0F / 90.0F, to + 3 * point_stride, point_stride);
    GradientPair(d, 0.5F, 1.0F / 1.40625F, to + 5 * point_stride, point_stride);
    d[3].Store(to + 7 * point_stride);
  }
}

template <class V>
inline constexpr Transforms kTransformsOf = {WinogradInput<V>, WinogradOutput<V>, WinogradGradient<V>};

}  // namespace moka::batch_lanes
#endif
