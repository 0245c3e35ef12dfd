#include "layers/cpu/batch_norm_strips.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "layers/cpu/vector_clones.h"

// A body is written once for rows of L floats; the functions with a fixed L below carry the clones and inline it.
#define MOKA_INLINE [[gnu::always_inline]] inline

namespace moka {
namespace {

// No wider than AVX2's registers: compilers keep wider ones in memory, and these loops wait for memory anyway.
using Float8 [[gnu::vector_size(32)]] = float;

template <class V, class T>
MOKA_INLINE void Load(V& v, const T* from) {
  std::memcpy(&v, from, sizeof(V));
}
template <class V, class T>
MOKA_INLINE void Store(const V& v, T* to) {
  std::memcpy(to, &v, sizeof(V));
}
// L lanes in pieces.
template <class V, size_t kPieces, class T>
MOKA_INLINE void LoadAll(std::array<V, kPieces>& v, const T* from) {
  for (size_t k = 0; k < kPieces; ++k) Load(v[k], from + k * (sizeof(V) / sizeof(T)));
}

// Rows summed in float before the sum goes into double: the rounding of so few additions stays below that of the
// result, and converting every row would take longer than reading it.
constexpr int64_t kRowsInFloat = 16;

template <int L>
MOKA_INLINE void SumBody(const StripShape& strip, const float* x, LaneSums& sums) {
  // Deviations from the first row, so that a large mean cancels nothing in the squares.
  std::array<Float8, L / 8> pivot;
  LoadAll(pivot, x);
  std::array<double, L> first{};
  std::array<double, L> second{};
  for (int64_t r = 0; r < strip.rows;) {
    std::array<Float8, L / 8> sum{};
    std::array<Float8, L / 8> square{};
    for (const int64_t end = std::min(strip.rows, r + kRowsInFloat); r < end; ++r, x += strip.stride) {
      for (size_t k = 0; k < L / 8; ++k) {
        Float8 v;
        Load(v, x + 8 * k);
        v -= pivot[k];
        sum[k] += v;
        square[k] += v * v;
      }
    }
    for (size_t lane = 0; lane < L; ++lane) {
      first[lane] += sum[lane / 8][lane % 8];
      second[lane] += square[lane / 8][lane % 8];
    }
  }
  const auto rows = static_cast<double>(strip.rows);
  for (size_t lane = 0; lane < L; ++lane) {
    const double p = pivot[lane / 8][lane % 8];
    sums.first[lane] += first[lane] + rows * p;
    sums.second[lane] += second[lane] + 2 * p * first[lane] + rows * p * p;
  }
}

template <int L>
MOKA_INLINE void ApplyBody(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const float* x,
                           float* y) {
  using Row = std::array<Float8, L / 8>;
  Row mean;
  Row factor;
  Row shift;
  LoadAll(mean, c.mean);
  LoadAll(factor, c.factor);
  LoadAll(shift, c.shift);
  const Float8 zero = {};
  // Below this, values become 0: nothing is below minus infinity. A NaN stays.
  const Float8 floor = zero - (activation == Activation::kRelu ? 0.0F : __builtin_inff());
  for (int64_t i = 0, r = 0; r < strip.rows; ++r, i += strip.stride) {
    for (size_t k = 0; k < L / 8; ++k) {
      Float8 v;
      Load(v, x + i + 8 * k);
      v = (v - mean[k]) * factor[k] + shift[k];
      v = v < floor ? zero : v;
      Store(v, y + i + 8 * k);
    }
  }
}

template <int L, bool kMasked>
MOKA_INLINE void SumGradientBody(const StripShape& strip, const float* means, const float* x, const float* dy,
                                 const float* y, LaneSums& sums) {
  std::array<Float8, L / 8> mean;
  LoadAll(mean, means);
  for (int64_t i = 0, r = 0; r < strip.rows;) {
    std::array<Float8, L / 8> first{};
    std::array<Float8, L / 8> second{};
    for (const int64_t end = std::min(strip.rows, r + kRowsInFloat); r < end; ++r, i += strip.stride) {
      for (size_t k = 0; k < L / 8; ++k) {
        const int64_t at = i + static_cast<int64_t>(8 * k);
        Float8 g;
        Float8 v;
        Load(g, dy + at);
        Load(v, x + at);
        if constexpr (kMasked) {
          Float8 out;
          Load(out, y + at);
          g = out > 0.0F ? g : Float8{};
        }
        first[k] += g;
        second[k] += g * (v - mean[k]);
      }
    }
    for (size_t lane = 0; lane < L; ++lane) {
      sums.first[lane] += first[lane / 8][lane % 8];
      sums.second[lane] += second[lane / 8][lane % 8];
    }
  }
}

template <int L, bool kMasked>
MOKA_INLINE void ApplyGradientBody(const StripShape& strip, const BackwardCoefficients& c, const float* x,
                                   const float* dy, const float* y, float* dx) {
  using Row = std::array<Float8, L / 8>;
  Row mean;
  Row factor;
  Row average;
  Row slope;
  LoadAll(mean, c.mean);
  LoadAll(factor, c.factor);
  LoadAll(average, c.average);
  LoadAll(slope, c.slope);
  for (int64_t i = 0, r = 0; r < strip.rows; ++r, i += strip.stride) {
    for (size_t k = 0; k < L / 8; ++k) {
      const int64_t at = i + static_cast<int64_t>(8 * k);
      Float8 g;
      Float8 v;
      Load(g, dy + at);
      Load(v, x + at);
      if constexpr (kMasked) {
        Float8 out;
        Load(out, y + at);
        g = out > 0.0F ? g : Float8{};
      }
      const Float8 result = (g - average[k] - (v - mean[k]) * slope[k]) * factor[k];
      Store(result, dx + at);
    }
  }
}

MOKA_VECTOR_CLONES void Sum16(const StripShape& s, const float* x, LaneSums& sums) { SumBody<16>(s, x, sums); }
MOKA_VECTOR_CLONES void Sum8(const StripShape& s, const float* x, LaneSums& sums) { SumBody<8>(s, x, sums); }

MOKA_VECTOR_CLONES void Apply16(const StripShape& s, const ForwardCoefficients& c, Activation a, const float* x,
                                float* y) {
  ApplyBody<16>(s, c, a, x, y);
}
MOKA_VECTOR_CLONES void Apply8(const StripShape& s, const ForwardCoefficients& c, Activation a, const float* x,
                               float* y) {
  ApplyBody<8>(s, c, a, x, y);
}

MOKA_VECTOR_CLONES void SumGradient16(const StripShape& s, const float* mean, const float* x, const float* dy,
                                      const float* y, LaneSums& sums) {
  if (y == nullptr) {
    SumGradientBody<16, false>(s, mean, x, dy, y, sums);
  } else {
    SumGradientBody<16, true>(s, mean, x, dy, y, sums);
  }
}
MOKA_VECTOR_CLONES void SumGradient8(const StripShape& s, const float* mean, const float* x, const float* dy,
                                     const float* y, LaneSums& sums) {
  if (y == nullptr) {
    SumGradientBody<8, false>(s, mean, x, dy, y, sums);
  } else {
    SumGradientBody<8, true>(s, mean, x, dy, y, sums);
  }
}

MOKA_VECTOR_CLONES void ApplyGradient16(const StripShape& s, const BackwardCoefficients& c, const float* x,
                                        const float* dy, const float* y, float* dx) {
  if (y == nullptr) {
    ApplyGradientBody<16, false>(s, c, x, dy, y, dx);
  } else {
    ApplyGradientBody<16, true>(s, c, x, dy, y, dx);
  }
}
MOKA_VECTOR_CLONES void ApplyGradient8(const StripShape& s, const BackwardCoefficients& c, const float* x,
                                       const float* dy, const float* y, float* dx) {
  if (y == nullptr) {
    ApplyGradientBody<8, false>(s, c, x, dy, y, dx);
  } else {
    ApplyGradientBody<8, true>(s, c, x, dy, y, dx);
  }
}

// Calls f(lane, offset) over a strip of any width.
template <class F>
void VisitStrip(const StripShape& strip, F&& f) {
  for (int64_t r = 0; r < strip.rows; ++r) {
    for (int lane = 0; lane < strip.lanes; ++lane) f(static_cast<size_t>(lane), r * strip.stride + lane);
  }
}

float Masked(const float* dy, const float* y, int64_t i) { return y == nullptr || y[i] > 0 ? dy[i] : 0.0F; }

}  // namespace

void SumStrip(const StripShape& strip, const float* x, LaneSums& sums) {
  if (strip.lanes == 16) return Sum16(strip, x, sums);
  if (strip.lanes == 8) return Sum8(strip, x, sums);
  VisitStrip(strip, [&](size_t lane, int64_t i) {
    sums.first[lane] += x[i];
    sums.second[lane] += static_cast<double>(x[i]) * x[i];
  });
}

void ApplyStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const float* x,
                float* y) {
  if (strip.lanes == 16) return Apply16(strip, c, activation, x, y);
  if (strip.lanes == 8) return Apply8(strip, c, activation, x, y);
  VisitStrip(strip, [&](size_t lane, int64_t i) {
    const float v = (x[i] - c.mean[lane]) * c.factor[lane] + c.shift[lane];
    y[i] = activation == Activation::kRelu && v < 0 ? 0.0F : v;
  });
}

void SumGradientStrip(const StripShape& strip, const float* mean, const float* x, const float* dy, const float* y,
                      LaneSums& sums) {
  if (strip.lanes == 16) return SumGradient16(strip, mean, x, dy, y, sums);
  if (strip.lanes == 8) return SumGradient8(strip, mean, x, dy, y, sums);
  VisitStrip(strip, [&](size_t lane, int64_t i) {
    const double g = Masked(dy, y, i);
    sums.first[lane] += g;
    sums.second[lane] += g * (x[i] - mean[lane]);
  });
}

void ApplyGradientStrip(const StripShape& strip, const BackwardCoefficients& c, const float* x, const float* dy,
                        const float* y, float* dx) {
  if (strip.lanes == 16) return ApplyGradient16(strip, c, x, dy, y, dx);
  if (strip.lanes == 8) return ApplyGradient8(strip, c, x, dy, y, dx);
  VisitStrip(strip, [&](size_t lane, int64_t i) {
    dx[i] = (Masked(dy, y, i) - c.average[lane] - (x[i] - c.mean[lane]) * c.slope[lane]) * c.factor[lane];
  });
}

}  // namespace moka
