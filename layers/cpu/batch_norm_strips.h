// The loops of batch normalisation over one strip: `rows` rows of `lanes` neighbouring floats, `stride` floats apart.
// A lane has its own coefficients: a channel in blocked and channels-last memory, or any position of one channel in
// plain memory (then all lanes' coefficients are equal). Sums are kept
// in double.
#pragma once

#include <array>
#include <cstdint>

namespace moka {

inline constexpr int kMaxLanes = 16;

struct StripShape {
  int64_t rows = 0;
  int64_t stride = 0;
  int lanes = kMaxLanes;  // 16 and 8 are fast
};

// Two sums a lane.
struct LaneSums {
  std::array<double, kMaxLanes> first{};
  std::array<double, kMaxLanes> second{};
};

// first += x, second += x^2.
void SumStrip(const StripShape& strip, const float* x, LaneSums& sums);

// y = (x - mean) * factor + shift, then max(y, 0) if relu.
struct ForwardCoefficients {
  const float* mean;
  const float* factor;
  const float* shift;
};
enum class Activation : uint8_t { kNone, kRelu };
void ApplyStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const float* x, float* y);

// With g = dy, masked by y > 0 if y is not null: first += g, second += g * (x - mean).
void SumGradientStrip(const StripShape& strip, const float* mean, const float* x, const float* dy, const float* y,
                      LaneSums& sums);

// dx = (g - average - (x - mean) * slope) * factor.
struct BackwardCoefficients {
  const float* mean;
  const float* factor;   // scale / sqrt(variance + eps)
  const float* average;  // of g
  const float* slope;    // average of g * (x - mean), over (variance + eps)
};
void ApplyGradientStrip(const StripShape& strip, const BackwardCoefficients& c, const float* x, const float* dy,
                        const float* y, float* dx);

}  // namespace moka
