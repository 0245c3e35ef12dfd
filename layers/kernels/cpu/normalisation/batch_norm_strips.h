// The loops of batch normalisation over one strip: `rows` rows of `lanes` neighbouring elements, `stride` elements
// apart. A lane has its own coefficients: a channel in blocked memory (a block of them) and channels-last memory (all),
// or any position of one channel in plain memory (then all lanes' coefficients are equal). Elements are float or
// BFloat16 (T), which is widened as it is read and rounded as it is written; all is computed in float, and sums are
// kept in double.
#pragma once

#include "layers/kernels/cpu/normalisation/batch_norm_types.h"

namespace moka {

// first += x, second += x^2.
template <class T>
void SumStrip(const StripShape& strip, const T* x, const LaneSums& sums);

template <class T>
void ApplyStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                const T* residual, T* y);
// The same past the caches: a line that is not read first costs a third less. Requires: rows on boundaries of 16 bytes.
template <class T>
void StreamStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                 const T* residual, T* y);

// first += g, second += g * (x - mean); g is written where x lies if `out` is not null.
template <class T>
void SumGradientStrip(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams<T>& in, T* out,
                      const LaneSums& sums);

// out = 0 where x lies.
template <class T>
void ClearStrip(const StripShape& strip, T* out);

template <class T>
void ApplyGradientStrip(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams<T>& in, T* dx);

}  // namespace moka
