// Narrow tiles: one, two or three results along an axis instead of four, at the lower and right edge of a plane. Of the
// six points of points.h m results take m + 2: +-a and infinity; 0 too from two results on; b too for three. So the
// weights transformed for whole tiles serve them, divided by the points' products there; what these are of the products
// at fewer points is a factor in the rows of B^T here (-2, -3/2, -3/2 for two results).
//   m = 1  B^T = [-3/4 -3/2a 0; -3/4 3/2a 0; -1/2 0 1]
//   m = 2  B^T = [1 0 -2 0; 0 -3/2a -3/2 0; 0 3/2a -3/2 0; 0 -1/2 0 1]
//   m = 3  B^T = [1 -a -2 b 0; 0 -3/2b -3/2 3/2b 0; 0 a -3/2 a 0; 0 -b 0 2b 0; 0 a -1/2 -b 1]
#pragma once

#include "layers/kernels/cpu/winograd/points.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::winograd {

// v = B^T d at the points of one result; the others are left as they are.
template <class V>
MOKA_INLINE void TransformInput(const V (&d)[3], V (&v)[6]) {
  const V even = V::All(-0.75F) * d[0];
  const V odd = V::All(-1.5F * kA);
  v[1] = Fma(odd, d[1], even);
  v[2] = Fnma(odd, d[1], even);
  v[5] = Fnma(V::All(0.5F), d[0], d[2]);
}

// v = B^T d at the points of two results.
template <class V>
MOKA_INLINE void TransformInput(const V (&d)[4], V (&v)[6]) {
  const V even = V::All(-1.5F) * d[2];
  const V odd = V::All(-1.5F * kA);
  v[0] = Fnma(V::All(2.0F), d[2], d[0]);
  v[1] = Fma(odd, d[1], even);
  v[2] = Fnma(odd, d[1], even);
  v[5] = Fnma(V::All(0.5F), d[1], d[3]);
}

// v = B^T d at the points of three results.
template <class V>
MOKA_INLINE void TransformInput(const V (&d)[5], V (&v)[6]) {
  const V a = V::All(kA);
  const V b = V::All(kB);
  const V minus_three_halves = V::All(-1.5F);
  v[0] = Fma(b, d[3], Fnma(V::All(2.0F), d[2], Fnma(a, d[1], d[0])));
  v[1] = Fma(V::All(1.5F * kB), d[3] - d[1], minus_three_halves * d[2]);
  v[2] = Fma(a, d[1] + d[3], minus_three_halves * d[2]);
  v[3] = Fma(V::All(2 * kB), d[3], V::Zero() - b * d[1]);
  v[5] = Fma(a, d[1], Fnma(V::All(0.5F), d[2], Fnma(b, d[3], d[4])));
}

// y = A^T m from the points of one result.
template <class V>
MOKA_INLINE void TransformOutput(const V (&m)[6], V (&y)[1]) {
  y[0] = m[1] + m[2] + m[5];
}

template <class V>
MOKA_INLINE void TransformOutput(const V (&m)[6], V (&y)[2]) {
  y[0] = m[0] + (m[1] + m[2]);
  y[1] = Fma(V::All(kA), m[1] - m[2], m[5]);
}

template <class V>
MOKA_INLINE void TransformOutput(const V (&m)[6], V (&y)[3]) {
  const V sum_a = m[1] + m[2];
  y[0] = m[0] + (sum_a + m[3]);
  y[1] = Fma(V::All(kB), m[3], V::All(kA) * (m[1] - m[2]));
  y[2] = Fma(V::All(2.0F), m[3], Fma(V::All(0.5F), sum_a, m[5]));
}

// m = A y: the adjoints of TransformOutput.
template <class V>
MOKA_INLINE void TransformOutputAdjoint(const V (&y)[1], V (&m)[6]) {
  m[1] = m[2] = m[5] = y[0];
}

template <class V>
MOKA_INLINE void TransformOutputAdjoint(const V (&y)[2], V (&m)[6]) {
  m[0] = y[0];
  m[1] = Fma(V::All(kA), y[1], y[0]);
  m[2] = Fnma(V::All(kA), y[1], y[0]);
  m[5] = y[1];
}

template <class V>
MOKA_INLINE void TransformOutputAdjoint(const V (&y)[3], V (&m)[6]) {
  const V even = Fma(V::All(0.5F), y[2], y[0]);
  m[0] = y[0];
  m[1] = Fma(V::All(kA), y[1], even);
  m[2] = Fnma(V::All(kA), y[1], even);
  m[3] = Fma(V::All(2.0F), y[2], Fma(V::All(kB), y[1], y[0]));
  m[5] = y[2];
}

}  // namespace moka::winograd
#endif
