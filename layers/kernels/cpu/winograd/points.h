// One-dimensional transforms of Winograd's minimal filtering, y = A^T [(G g) * (B^T d)] (Lavin & Gray, "Fast Algorithms
// for Convolutional Neural Networks", arXiv 1509.09308, equation 4), for tiles of four results. A window of three taps
// takes six points, 0, +-a, +-1/a and infinity with a = sqrt(1/2): reciprocal points of small magnitude round best
// (Barabasz et al., arXiv 1803.10986, section 5). Measured relative errors of F(4x4,3x3) over 64 channels: 1.4e-6
// against 5.4e-6 with 0, +-1, +-2.
//   B^T = [1 0 -5/2 0 1 0; 0 -2a -2 a 1 0; 0 2a -2 -a 1 0; 0 -a -1/2 2a 1 0; 0 a -1/2 -2a 1 0; 0 1 0 -5/2 0 1]
//   (-a*b^2 = -b for b = 1/a = 2a.)
// A window of two taps takes five: +-c, +-d and infinity with c = 1/2 and d = 5/4. Measured relative errors of
// F(4x4,2x2) over 256 channels: 1.6e-6 against 7.7e-6 with 0, +-1 and 2; of the weights' gradient over 1,024 tiles:
// 1.4e-6 against 4.6e-6. The largest on the tests' random shapes is 2.9e-6.
//   B^T = [-cd^2 -d^2 c 1 0; cd^2 -d^2 -c 1 0; -c^2d -c^2 d 1 0; c^2d -c^2 -d 1 0; c^2d^2 0 -(c^2+d^2) 0 1]
#pragma once

#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

inline constexpr float kA = 0.70710678118654752F;  // sqrt(1/2)
inline constexpr float kB = 1.41421356237309505F;  // its reciprocal
inline constexpr float kC = 0.5F;
inline constexpr float kD = 1.25F;

// v = B^T d: values at the six points.
template <class V>
MOKA_INLINE void TransformInput(const V (&d)[6], V (&v)[6]) {
  const V a = V::All(kA);
  const V b = V::All(kB);
  const V half = V::All(0.5F);
  const V two = V::All(2.0F);
  const V sum = V::All(2.5F);
  const V even_a = Fnma(two, d[2], d[4]);
  const V odd_a = Fnma(two, d[1], d[3]);
  const V even_b = Fnma(half, d[2], d[4]);
  const V odd_b = Fnma(half, d[1], d[3]);
  v[0] = Fnma(sum, d[2], d[0] + d[4]);
  v[1] = Fma(a, odd_a, even_a);
  v[2] = Fnma(a, odd_a, even_a);
  v[3] = Fma(b, odd_b, even_b);
  v[4] = Fnma(b, odd_b, even_b);
  v[5] = Fnma(sum, d[3], d[1] + d[5]);
}

// The same for two taps: five inputs at the points +-c, +-d and infinity.
template <class V>
MOKA_INLINE void TransformInput(const V (&d)[5], V (&v)[5]) {
  const V c = V::All(kC);
  const V e = V::All(kD);
  const V square_c = V::All(kC * kC);
  const V square_d = V::All(kD * kD);
  const V even_c = Fnma(square_d, d[1], d[3]);
  const V odd_c = Fnma(square_d, d[0], d[2]);
  const V even_d = Fnma(square_c, d[1], d[3]);
  const V odd_d = Fnma(square_c, d[0], d[2]);
  v[0] = Fma(c, odd_c, even_c);
  v[1] = Fnma(c, odd_c, even_c);
  v[2] = Fma(e, odd_d, even_d);
  v[3] = Fnma(e, odd_d, even_d);
  v[4] = Fnma(square_d, odd_d, Fnma(square_c, d[2], d[4]));
}

// u = G g: a filter of three values at the six points, divided by the points' products.
template <class V>
MOKA_INLINE void TransformFilter(const V (&g)[3], V (&u)[6]) {
  const V minus_two_thirds = V::All(-2.0F / 3);
  const V sixth = V::All(1.0F / 6);
  const V a = V::All(kA * (-2.0F / 3));
  const V b = V::All(kB / 6);
  const V even_a = Fma(minus_two_thirds, g[0], V::All(-1.0F / 3) * g[2]);
  const V even_b = Fma(sixth, g[0], V::All(1.0F / 3) * g[2]);
  u[0] = g[0];
  u[1] = Fma(a, g[1], even_a);
  u[2] = Fnma(a, g[1], even_a);
  u[3] = Fma(b, g[1], even_b);
  u[4] = Fnma(b, g[1], even_b);
  u[5] = g[2];
}

// The same for two taps; 2c(c^2 - d^2) is the product of c's distances to the other points.
template <class V>
MOKA_INLINE void TransformFilter(const V (&g)[2], V (&u)[5]) {
  constexpr float kDistance = kC * kC - kD * kD;
  const V first_c = V::All(0.5F / (kC * kDistance)) * g[0];
  const V first_d = V::All(-0.5F / (kD * kDistance)) * g[0];
  const V half = V::All(0.5F / kDistance);
  u[0] = Fma(half, g[1], first_c);
  u[1] = Fma(half, g[1], V::Zero() - first_c);
  u[2] = Fnma(half, g[1], first_d);
  u[3] = Fnma(half, g[1], V::Zero() - first_d);
  u[4] = g[1];
}

// y = A^T m: four results from the products at the six points.
template <class V>
MOKA_INLINE void TransformOutput(const V (&m)[6], V (&y)[4]) {
  const V sum_a = m[1] + m[2];
  const V sum_b = m[3] + m[4];
  const V odd_a = V::All(kA) * (m[1] - m[2]);
  const V odd_b = V::All(kB) * (m[3] - m[4]);
  const V half = V::All(0.5F);
  const V two = V::All(2.0F);
  y[0] = m[0] + (sum_a + sum_b);
  y[1] = odd_a + odd_b;
  y[2] = Fma(two, sum_b, half * sum_a);
  y[3] = Fma(two, odd_b, Fma(half, odd_a, m[5]));
}

// Result k takes the k-th power of each point; infinity adds to the last alone.
template <class V>
MOKA_INLINE void TransformOutput(const V (&m)[5], V (&y)[4]) {
  const V sum_c = m[0] + m[1];
  const V sum_d = m[2] + m[3];
  const V odd_c = V::All(kC) * (m[0] - m[1]);
  const V odd_d = V::All(kD) * (m[2] - m[3]);
  const V square_c = V::All(kC * kC);
  const V square_d = V::All(kD * kD);
  y[0] = sum_c + sum_d;
  y[1] = odd_c + odd_d;
  y[2] = Fma(square_d, sum_d, square_c * sum_c);
  y[3] = Fma(square_d, odd_d, Fma(square_c, odd_c, m[4]));
}

}  // namespace moka::winograd
#endif
