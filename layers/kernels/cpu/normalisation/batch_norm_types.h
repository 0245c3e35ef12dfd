// The values of the loops of batch normalisation: strips of memory, the coefficients and sums of their lanes, and the
// tensors that a gradient is made of.
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

// y = (x - mean) * factor + shift, plus the residual if it is not null, then max(y, 0) if relu.
struct ForwardCoefficients {
  const float* mean;
  const float* factor;  // scale / sqrt(variance + eps)
  const float* shift;
};
enum class Activation : uint8_t { kNone, kRelu };
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

// dx = (g - average - (x - mean) * slope) * factor.
struct BackwardCoefficients {
  ForwardCoefficients forward;
  const float* average;  // of g
  const float* slope;    // average of g * (x - mean), over (variance + eps)
};
}  // namespace moka
