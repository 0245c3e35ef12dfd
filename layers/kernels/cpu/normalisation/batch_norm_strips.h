// The loops of batch normalisation over one strip: `rows` rows of `lanes` neighbouring elements, `stride` elements
// apart. A lane has its own coefficients: a channel in blocked memory (a block of them) and channels-last memory (all),
// or any position of one channel in plain memory (then all lanes' coefficients are equal). Elements are float or
// BFloat16 (T), which is widened as it is read and rounded as it is written; all is computed in float, and sums are
// kept in double.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/half.h"

namespace moka {

inline constexpr int kMaxLanes = 16;

struct StripShape {
  int64_t rows = 0;
  int64_t stride = 0;
  int lanes = kMaxLanes;  // 16, 8 and more than 16 are fast
  int64_t y_stride = 0;   // of y and its gradients; another one where y has some positions of x alone
};

// Where a strip adds its two sums a lane.
struct LaneSums {
  double* first;
  double* second;
};

// first += x, second += x^2.
template <class T>
void SumStrip(const StripShape& strip, const T* x, const LaneSums& sums);

// y = (x - mean) * factor + shift, plus the residual if it is not null, then max(y, 0) if relu.
struct ForwardCoefficients {
  const float* mean;
  const float* factor;  // scale / sqrt(variance + eps)
  const float* shift;
};
enum class Activation : uint8_t { kNone, kRelu };
template <class T>
void ApplyStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                const T* residual, T* y);
// The same past the caches: a line that is not read first costs a third less. Requires: rows on boundaries of 16 bytes.
template <class T>
void StreamStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                 const T* residual, T* y);

// Whether the gradient g is 0 where y <= 0, and whether y is read or made again from x.
enum class Mask : uint8_t { kNone, kOutput, kInput };
inline constexpr int kMaxGradients = 4;

// The tensors that a gradient is made of: g = dy[0] + .. + dy[gradients - 1], masked.
template <class T>
struct GradientStreams {
  const T* x = nullptr;
  std::array<const T*, kMaxGradients> dy{};
  int gradients = 1;
  Mask mask = Mask::kNone;
  const T* y = nullptr;  // if mask is kOutput

  GradientStreams At(int64_t offset, int64_t y_offset) const {
    GradientStreams moved = *this;
    moved.x += offset;
    for (int k = 0; k < gradients; ++k) moved.dy[static_cast<size_t>(k)] += y_offset;
    if (y != nullptr) moved.y += y_offset;
    return moved;
  }
};

// first += g, second += g * (x - mean); g is written where x lies if `out` is not null.
template <class T>
void SumGradientStrip(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams<T>& in, T* out,
                      const LaneSums& sums);

// out = 0 where x lies.
template <class T>
void ClearStrip(const StripShape& strip, T* out);

// dx = (g - average - (x - mean) * slope) * factor.
struct BackwardCoefficients {
  ForwardCoefficients forward;
  const float* average;  // of g
  const float* slope;    // average of g * (x - mean), over (variance + eps)
};
template <class T>
void ApplyGradientStrip(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams<T>& in, T* dx);

}  // namespace moka
