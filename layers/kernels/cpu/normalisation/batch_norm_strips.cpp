// One body a loop, instantiated for 16 and 8 lanes and inlined into clones for wider instructions; the last channels or
// positions of a tensor take a plain loop in double. Sums go to double after a few rows, which bounds their rounding
// without a conversion an element.
#include "layers/kernels/cpu/normalisation/batch_norm_strips.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "core/vector_clones.h"

// A body is written once for rows of L floats; the functions with a fixed L below carry the clones and inline it.
#define MOKA_INLINE [[gnu::always_inline]] inline

namespace moka {
namespace {

// No wider than AVX2's registers: compilers keep wider ones in memory, and these loops wait for memory anyway.
using Float8 [[gnu::vector_size(32)]] = float;
using Float4 [[gnu::vector_size(16)]] = float;
using Double4 [[gnu::vector_size(32)]] = double;
template <int L>
using Row = std::array<Float8, L / 8>;

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

// Sums of L lanes in double, added to in registers.
template <int L>
struct WideSums {
  // gcc turns a conversion lane by lane into moves of single values.
  MOKA_INLINE void Add(const Row<L>& values) {
    for (size_t k = 0; k < L / 8; ++k) {
      Float4 low = __builtin_shufflevector(values[k], values[k], 0, 1, 2, 3);
      Float4 high = __builtin_shufflevector(values[k], values[k], 4, 5, 6, 7);
      sums[2 * k] += __builtin_convertvector(low, Double4);
      sums[2 * k + 1] += __builtin_convertvector(high, Double4);
    }
  }
  MOKA_INLINE double operator[](size_t lane) const { return sums[lane / 4][lane % 4]; }
  MOKA_INLINE void AddTo(std::array<double, kMaxLanes>& to) const {
    for (size_t k = 0; k < L / 4; ++k) {
      Double4 v;
      Load(v, to.data() + 4 * k);
      v += sums[k];
      Store(v, to.data() + 4 * k);
    }
  }
  std::array<Double4, L / 4> sums{};
};

// Rows summed in float before the sum goes into double: the rounding of so few additions stays below that of the
// result, and converting every row would take longer than reading it.
constexpr int64_t kRowsInFloat = 16;

template <int L>
MOKA_INLINE void SumBody(const StripShape& strip, const float* x, LaneSums& sums) {
  // Deviations from the first row, so that a large mean cancels nothing in the squares.
  Row<L> pivot;
  LoadAll(pivot, x);
  WideSums<L> first;
  WideSums<L> second;
  for (int64_t r = 0; r < strip.rows;) {
    Row<L> sum{};
    Row<L> square{};
    for (const int64_t end = std::min(strip.rows, r + kRowsInFloat); r < end; ++r, x += strip.stride) {
      for (size_t k = 0; k < L / 8; ++k) {
        Float8 v;
        Load(v, x + 8 * k);
        v -= pivot[k];
        sum[k] += v;
        square[k] += v * v;
      }
    }
    first.Add(sum);
    second.Add(square);
  }
  // sum x = sum (x - p) + n p, and sum x^2 = sum (x - p)^2 + 2 p sum (x - p) + n p^2, for any pivot p (Chan, Golub and
  // LeVeque, "Algorithms for Computing the Sample Variance", 1983: shifted data).
  const auto rows = static_cast<double>(strip.rows);
  for (size_t lane = 0; lane < L; ++lane) {
    const double p = pivot[lane / 8][lane % 8];
    sums.first[lane] += first[lane] + rows * p;
    sums.second[lane] += second[lane] + 2 * p * first[lane] + rows * p * p;
  }
}

template <int L>
struct ForwardRow {
  MOKA_INLINE explicit ForwardRow(const ForwardCoefficients& c) {
    LoadAll(mean, c.mean);
    LoadAll(factor, c.factor);
    LoadAll(shift, c.shift);
  }
  // x becomes the result. The forward pass and the mask of the gradient give the same bits.
  MOKA_INLINE void Apply(Float8& x, size_t k) const { x = (x - mean[k]) * factor[k] + shift[k]; }

  Row<L> mean;
  Row<L> factor;
  Row<L> shift;
};

// Past the caches. Requires: `to` on a boundary of 16 bytes.
MOKA_INLINE void Stream(const Float8& v, float* to) {
#if defined(__SSE__)
  _mm_stream_ps(to, __builtin_shufflevector(v, v, 0, 1, 2, 3));
  _mm_stream_ps(to + 4, __builtin_shufflevector(v, v, 4, 5, 6, 7));
#else
  Store(v, to);
#endif
}

template <int L, bool kSums, bool kStreams>
MOKA_INLINE void ApplyBody(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const float* x,
                           const float* residual, float* y) {
  const ForwardRow<L> row(c);
  const Float8 zero = {};
  // Below this, values become 0: nothing is below minus infinity. A NaN stays.
  const Float8 floor = zero - (activation == Activation::kRelu ? 0.0F : __builtin_inff());
  for (int64_t i = 0, j = 0, r = 0; r < strip.rows; ++r, i += strip.stride, j += strip.y_stride) {
    for (size_t k = 0; k < L / 8; ++k) {
      Float8 v;
      Load(v, x + i + 8 * k);
      row.Apply(v, k);
      if constexpr (kSums) {
        Float8 other;
        Load(other, residual + i + 8 * k);
        v += other;
      }
      v = v < floor ? zero : v;
      if constexpr (kStreams) {
        Stream(v, y + j + 8 * k);
      } else {
        Store(v, y + j + 8 * k);
      }
    }
  }
}

// g of eight elements of y at `at`; v is x there.
// The gradients of several readers are added here on the way instead of by a node of their own, which would write and
// read the whole tensor once more. The mask comes from y if it is there, else y is computed again from x.
template <int L, Mask kMask>
MOKA_INLINE void LoadGradient(const GradientStreams& in, const ForwardRow<L>& row, const Float8& v, int64_t at,
                              size_t k, Float8& g) {
  Load(g, in.dy[0] + at);
  for (int n = 1; n < in.gradients; ++n) {
    Float8 more;
    Load(more, in.dy[static_cast<size_t>(n)] + at);
    g += more;
  }
  if constexpr (kMask != Mask::kNone) {
    Float8 y = v;
    if constexpr (kMask == Mask::kOutput) {
      Load(y, in.y + at);
    } else {
      row.Apply(y, k);
    }
    g = y > 0.0F ? g : Float8{};
  }
}

// sum g and sum g (x - mean): dshift and, times 1/sqrt(variance + eps), dscale.
template <int L, Mask kMask, bool kWrites>
MOKA_INLINE void SumGradientBody(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams& in,
                                 float* out, LaneSums& sums) {
  const ForwardRow<L> row(c);
  WideSums<L> all_first;
  WideSums<L> all_second;
  for (int64_t i = 0, j = 0, r = 0; r < strip.rows;) {
    Row<L> first{};
    Row<L> second{};
    for (const int64_t end = std::min(strip.rows, r + kRowsInFloat); r < end;
         ++r, i += strip.stride, j += strip.y_stride) {
      for (size_t k = 0; k < L / 8; ++k) {
        const auto lane = static_cast<int64_t>(8 * k);
        const int64_t at = i + lane;
        Float8 v;
        Load(v, in.x + at);
        Float8 g;
        LoadGradient<L, kMask>(in, row, v, j + lane, k, g);
        if constexpr (kWrites) Store(g, out + at);
        first[k] += g;
        second[k] += g * (v - row.mean[k]);
      }
    }
    all_first.Add(first);
    all_second.Add(second);
  }
  all_first.AddTo(sums.first);
  all_second.AddTo(sums.second);
}

template <int L, Mask kMask>
MOKA_INLINE void ApplyGradientBody(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams& in,
                                   float* dx) {
  const ForwardRow<L> row(c.forward);
  Row<L> average;
  Row<L> slope;
  LoadAll(average, c.average);
  LoadAll(slope, c.slope);
  for (int64_t i = 0, j = 0, r = 0; r < strip.rows; ++r, i += strip.stride, j += strip.y_stride) {
    for (size_t k = 0; k < L / 8; ++k) {
      const auto lane = static_cast<int64_t>(8 * k);
      const int64_t at = i + lane;
      Float8 v;
      Load(v, in.x + at);
      Float8 g;
      LoadGradient<L, kMask>(in, row, v, j + lane, k, g);
      // dx = scale r (g - dshift/m - h dscale/m) with the constants folded: average = dshift/m, slope = r^2 sum(g (x -
      // mean))/m, factor = scale r.
      const Float8 result = (g - average[k] - (v - row.mean[k]) * slope[k]) * row.factor[k];
      Store(result, dx + at);
    }
  }
}

// The summand is a template argument: a test an element would cost more than the addition.
template <int L>
MOKA_INLINE void ApplyEither(const StripShape& s, const ForwardCoefficients& c, Activation a, const float* x,
                             const float* residual, float* y) {
  if (residual == nullptr) return ApplyBody<L, false, false>(s, c, a, x, residual, y);
  ApplyBody<L, true, false>(s, c, a, x, residual, y);
}

// A body for each mask, chosen once a strip.
template <int L, bool kWrites>
MOKA_INLINE void SumGradientMasked(const StripShape& s, const ForwardCoefficients& c, const GradientStreams& in,
                                   float* out, LaneSums& sums) {
  switch (in.mask) {
    case Mask::kNone: return SumGradientBody<L, Mask::kNone, kWrites>(s, c, in, out, sums);
    case Mask::kOutput: return SumGradientBody<L, Mask::kOutput, kWrites>(s, c, in, out, sums);
    case Mask::kInput: return SumGradientBody<L, Mask::kInput, kWrites>(s, c, in, out, sums);
  }
}

template <int L>
MOKA_INLINE void ApplyGradientMasked(const StripShape& s, const BackwardCoefficients& c, const GradientStreams& in,
                                     float* dx) {
  switch (in.mask) {
    case Mask::kNone: return ApplyGradientBody<L, Mask::kNone>(s, c, in, dx);
    case Mask::kOutput: return ApplyGradientBody<L, Mask::kOutput>(s, c, in, dx);
    case Mask::kInput: return ApplyGradientBody<L, Mask::kInput>(s, c, in, dx);
  }
}

// Blocked and channels-last strips have 16 or 8 lanes; plain ones are cut into rows of 16 positions. The clones are
// made by the compiler and chosen when the program is loaded.
MOKA_VECTOR_CLONES void Sum16(const StripShape& s, const float* x, LaneSums& sums) { SumBody<16>(s, x, sums); }
MOKA_VECTOR_CLONES void Sum8(const StripShape& s, const float* x, LaneSums& sums) { SumBody<8>(s, x, sums); }

MOKA_VECTOR_CLONES void Apply16(const StripShape& s, const ForwardCoefficients& c, Activation a, const float* x,
                                const float* residual, float* y) {
  ApplyEither<16>(s, c, a, x, residual, y);
}
MOKA_VECTOR_CLONES void Stream16(const StripShape& s, const ForwardCoefficients& c, Activation a, const float* x,
                                 const float* residual, float* y) {
  if (residual == nullptr) {
    ApplyBody<16, false, true>(s, c, a, x, residual, y);
  } else {
    ApplyBody<16, true, true>(s, c, a, x, residual, y);
  }
#if defined(__SSE__)
  _mm_sfence();  // what is streamed becomes visible in no order otherwise
#endif
}
MOKA_VECTOR_CLONES void Apply8(const StripShape& s, const ForwardCoefficients& c, Activation a, const float* x,
                               const float* residual, float* y) {
  ApplyEither<8>(s, c, a, x, residual, y);
}

MOKA_VECTOR_CLONES void SumGradient16(const StripShape& s, const ForwardCoefficients& c, const GradientStreams& in,
                                      LaneSums& sums) {
  SumGradientMasked<16, false>(s, c, in, nullptr, sums);
}
MOKA_VECTOR_CLONES void SumGradient8(const StripShape& s, const ForwardCoefficients& c, const GradientStreams& in,
                                     LaneSums& sums) {
  SumGradientMasked<8, false>(s, c, in, nullptr, sums);
}
MOKA_VECTOR_CLONES void WriteGradient16(const StripShape& s, const ForwardCoefficients& c, const GradientStreams& in,
                                        float* out, LaneSums& sums) {
  SumGradientMasked<16, true>(s, c, in, out, sums);
}
MOKA_VECTOR_CLONES void WriteGradient8(const StripShape& s, const ForwardCoefficients& c, const GradientStreams& in,
                                       float* out, LaneSums& sums) {
  SumGradientMasked<8, true>(s, c, in, out, sums);
}

MOKA_VECTOR_CLONES void ApplyGradient16(const StripShape& s, const BackwardCoefficients& c, const GradientStreams& in,
                                        float* dx) {
  ApplyGradientMasked<16>(s, c, in, dx);
}
MOKA_VECTOR_CLONES void ApplyGradient8(const StripShape& s, const BackwardCoefficients& c, const GradientStreams& in,
                                       float* dx) {
  ApplyGradientMasked<8>(s, c, in, dx);
}

// Calls f(lane, offset in x, offset in y) over a strip of any width.
// The slow way, for the last channels or positions of a tensor; in double, so nothing needs a pivot.
template <class F>
void VisitStrip(const StripShape& strip, F&& f) {
  for (int64_t r = 0; r < strip.rows; ++r) {
    for (int lane = 0; lane < strip.lanes; ++lane) {
      f(static_cast<size_t>(lane), r * strip.stride + lane, r * strip.y_stride + lane);
    }
  }
}

float ForwardAt(const ForwardCoefficients& c, float x, size_t lane) {
  return (x - c.mean[lane]) * c.factor[lane] + c.shift[lane];
}

// One element of what LoadGradient does for eight, with the same result.
float GradientOf(const GradientStreams& in, const ForwardCoefficients& c, size_t lane, int64_t i, int64_t j) {
  if (in.mask == Mask::kOutput && !(in.y[j] > 0)) return 0.0F;
  if (in.mask == Mask::kInput && !(ForwardAt(c, in.x[i], lane) > 0)) return 0.0F;
  float g = in.dy[0][j];
  for (int n = 1; n < in.gradients; ++n) g += in.dy[static_cast<size_t>(n)][j];
  return g;
}

}  // namespace

// Strips of another width are the last channels or positions of a tensor, for which the slow way is fast enough.
void SumStrip(const StripShape& strip, const float* x, LaneSums& sums) {
  if (strip.lanes == 16) return Sum16(strip, x, sums);
  if (strip.lanes == 8) return Sum8(strip, x, sums);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t) {
    sums.first[lane] += x[i];
    sums.second[lane] += static_cast<double>(x[i]) * x[i];
  });
}

void ApplyStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const float* x,
                const float* residual, float* y) {
  if (strip.lanes == 16) return Apply16(strip, c, activation, x, residual, y);
  if (strip.lanes == 8) return Apply8(strip, c, activation, x, residual, y);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t j) {
    const float v = ForwardAt(c, x[i], lane) + (residual == nullptr ? 0.0F : residual[i]);
    y[j] = activation == Activation::kRelu && v < 0 ? 0.0F : v;
  });
}

// Rows of 16 lanes are on the boundaries that streaming stores need.
void StreamStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const float* x,
                 const float* residual, float* y) {
  if (strip.lanes == 16) return Stream16(strip, c, activation, x, residual, y);
  ApplyStrip(strip, c, activation, x, residual, y);
}

void SumGradientStrip(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams& in, float* out,
                      LaneSums& sums) {
  const bool writes = out != nullptr;
  if (strip.lanes == 16) return writes ? WriteGradient16(strip, c, in, out, sums) : SumGradient16(strip, c, in, sums);
  if (strip.lanes == 8) return writes ? WriteGradient8(strip, c, in, out, sums) : SumGradient8(strip, c, in, sums);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t j) {
    const float g = GradientOf(in, c, lane, i, j);
    const double v = in.x[i] - c.mean[lane];
    if (writes) out[i] = g;
    sums.first[lane] += g;
    sums.second[lane] += g * v;
  });
}

// A strip without gaps is one stretch of memory.
void ClearStrip(const StripShape& strip, float* out) {
  if (strip.lanes == strip.stride) {
    std::fill_n(out, strip.rows * strip.stride, 0.0F);
    return;
  }
  for (int64_t r = 0; r < strip.rows; ++r) std::fill_n(out + r * strip.stride, strip.lanes, 0.0F);
}

void ApplyGradientStrip(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams& in, float* dx) {
  if (strip.lanes == 16) return ApplyGradient16(strip, c, in, dx);
  if (strip.lanes == 8) return ApplyGradient8(strip, c, in, dx);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t j) {
    const float g = GradientOf(in, c.forward, lane, i, j);
    dx[i] = (g - c.average[lane] - (in.x[i] - c.forward.mean[lane]) * c.slope[lane]) * c.forward.factor[lane];
  });
}

}  // namespace moka
