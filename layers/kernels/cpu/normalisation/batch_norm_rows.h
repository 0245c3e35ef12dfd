// The loops of batch_norm_strips.h over rows of many lanes, whose channels lie next to each other (channels last): a
// row is read from end to end, and the coefficients and sums of its channels are in the first level of cache instead of
// registers. strip.lanes may be any number.
#pragma once

#include "layers/kernels/cpu/normalisation/batch_norm_types.h"

namespace moka {

template <class T>
void SumRows(const StripShape& strip, const T* x, const LaneSums& sums);
template <class T>
void ApplyRows(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
               const T* residual, T* y);
template <class T>
void SumGradientRows(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams<T>& in, T* out,
                     const LaneSums& sums);
template <class T>
void ApplyGradientRows(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams<T>& in, T* dx);

}  // namespace moka
