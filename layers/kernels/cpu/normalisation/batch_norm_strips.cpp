// One body a loop, instantiated for 16 and 8 lanes and inlined into code with and without AVX2's registers; the last
// channels or positions of a tensor take a plain loop in double. Sums go to double after a few rows, which bounds their
// rounding without a conversion an element.
#include "layers/kernels/cpu/normalisation/batch_norm_strips.h"

#include <algorithm>
#include <cstddef>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "layers/kernels/cpu/normalisation/batch_norm_rows.h"
#include "layers/kernels/cpu/normalisation/batch_norm_vectors.h"

namespace moka {
namespace {

template <int L>
using Row = std::array<Float8, L / 8>;

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
  MOKA_INLINE void AddTo(double* to) const {
    for (size_t k = 0; k < L / 4; ++k) {
      Double4 v;
      Load(v, to + 4 * k);
      v += sums[k];
      Store(v, to + 4 * k);
    }
  }
  std::array<Double4, L / 4> sums{};
};

template <int L, class T>
MOKA_INLINE void SumBody(const StripShape& strip, const T* x, const LaneSums& sums) {
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
#if defined(__x86_64__)
template <class R>
MOKA_INLINE void Stream(const Float8& v, float* to) {
  _mm_stream_ps(to, __builtin_shufflevector(v, v, 0, 1, 2, 3));
  _mm_stream_ps(to + 4, __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
template <class R>
MOKA_INLINE void Stream(const Float8& v, BFloat16* to) {
  Short8 halves;
  R::Round(v, halves);
  __m128i line;
  std::memcpy(&line, &halves, sizeof line);
  _mm_stream_si128(static_cast<__m128i*>(static_cast<void*>(to)), line);
}
MOKA_INLINE void EndStream() { _mm_sfence(); }  // what is streamed becomes visible in no order otherwise
#else
template <class R, class T>
MOKA_INLINE void Stream(const Float8& v, T* to) {
  Store<R>(v, to);
}
MOKA_INLINE void EndStream() {}
#endif

template <int L, class R, bool kSums, bool kStreams, class T>
MOKA_INLINE void ApplyBody(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                           const T* residual, T* y) {
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
        Stream<R>(v, y + j + 8 * k);
      } else {
        Store<R>(v, y + j + 8 * k);
      }
    }
  }
}

// sum g and sum g (x - mean): dshift and, times 1/sqrt(variance + eps), dscale.
template <int L, class R, Mask kMask, bool kWrites, class T>
MOKA_INLINE void SumGradientBody(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams<T>& in,
                                 T* out, const LaneSums& sums) {
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
        LoadGradient<kMask>(in, row, v, j + lane, k, g);
        if constexpr (kWrites) Store<R>(g, out + at);
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

template <int L, class R, Mask kMask, class T>
MOKA_INLINE void ApplyGradientBody(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams<T>& in,
                                   T* dx) {
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
      LoadGradient<kMask>(in, row, v, j + lane, k, g);
      // dx = scale r (g - dshift/m - h dscale/m) with the constants folded: average = dshift/m, slope = r^2 sum(g (x -
      // mean))/m, factor = scale r.
      const Float8 result = (g - average[k] - (v - row.mean[k]) * slope[k]) * row.factor[k];
      Store<R>(result, dx + at);
    }
  }
}

// The summand is a template argument: a test an element would cost more than the addition.
template <int L, class R, bool kStreams, class T>
MOKA_INLINE void ApplyEither(const StripShape& s, const ForwardCoefficients& c, Activation a, const T* x,
                             const T* residual, T* y) {
  if (residual == nullptr) return ApplyBody<L, R, false, kStreams>(s, c, a, x, residual, y);
  ApplyBody<L, R, true, kStreams>(s, c, a, x, residual, y);
}

// A body for each mask, chosen once a strip.
template <int L, class R, bool kWrites, class T>
MOKA_INLINE void SumGradientMasked(const StripShape& s, const ForwardCoefficients& c, const GradientStreams<T>& in,
                                   T* out, const LaneSums& sums) {
  switch (in.mask) {
    case Mask::kNone: return SumGradientBody<L, R, Mask::kNone, kWrites>(s, c, in, out, sums);
    case Mask::kOutput: return SumGradientBody<L, R, Mask::kOutput, kWrites>(s, c, in, out, sums);
    case Mask::kInput: return SumGradientBody<L, R, Mask::kInput, kWrites>(s, c, in, out, sums);
  }
}

template <int L, class R, class T>
MOKA_INLINE void SumGradientEither(const StripShape& s, const ForwardCoefficients& c, const GradientStreams<T>& in,
                                   T* out, const LaneSums& sums) {
  if (out == nullptr) return SumGradientMasked<L, R, false>(s, c, in, out, sums);
  SumGradientMasked<L, R, true>(s, c, in, out, sums);
}

template <int L, class R, class T>
MOKA_INLINE void ApplyGradientMasked(const StripShape& s, const BackwardCoefficients& c, const GradientStreams<T>& in,
                                     T* dx) {
  switch (in.mask) {
    case Mask::kNone: return ApplyGradientBody<L, R, Mask::kNone>(s, c, in, dx);
    case Mask::kOutput: return ApplyGradientBody<L, R, Mask::kOutput>(s, c, in, dx);
    case Mask::kInput: return ApplyGradientBody<L, R, Mask::kInput>(s, c, in, dx);
  }
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

}  // namespace

// Blocked strips have 16 or 8 lanes, plain ones are cut into rows of 16 positions, and channels-last ones have all
// channels. Strips of another width are few channels, or the last positions, for which the slow way is fast enough.
template <class T>
void SumStrip(const StripShape& strip, const T* x, const LaneSums& sums) {
  if (strip.lanes == 16) return Widest<T>([&](auto) MOKA_INLINED { SumBody<16>(strip, x, sums); });
  if (strip.lanes == 8) return Widest<T>([&](auto) MOKA_INLINED { SumBody<8>(strip, x, sums); });
  if (strip.lanes > kMaxLanes) return SumRows(strip, x, sums);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t) { AddValue(x, i, lane, sums); });
}

template <class T>
void ApplyStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                const T* residual, T* y) {
  if (strip.lanes == 16)
    return Widest<T>([&](auto rounding) MOKA_INLINED {
      ApplyEither<16, decltype(rounding), false>(strip, c, activation, x, residual, y);
    });
  if (strip.lanes == 8)
    return Widest<T>([&](auto rounding) MOKA_INLINED {
      ApplyEither<8, decltype(rounding), false>(strip, c, activation, x, residual, y);
    });
  if (strip.lanes > kMaxLanes) return ApplyRows(strip, c, activation, x, residual, y);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t j) { ApplyValue(c, activation, lane, x, residual, i, y, j); });
}

// Rows of 16 lanes are on the boundaries that streaming stores need.
template <class T>
void StreamStrip(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
                 const T* residual, T* y) {
  if (strip.lanes != 16) return ApplyStrip(strip, c, activation, x, residual, y);
  Widest<T>([&](auto rounding)
                MOKA_INLINED { ApplyEither<16, decltype(rounding), true>(strip, c, activation, x, residual, y); });
  EndStream();
}

template <class T>
void SumGradientStrip(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams<T>& in, T* out,
                      const LaneSums& sums) {
  if (strip.lanes == 16)
    return Widest<T>([&](auto rounding)
                         MOKA_INLINED { SumGradientEither<16, decltype(rounding)>(strip, c, in, out, sums); });
  if (strip.lanes == 8)
    return Widest<T>([&](auto rounding)
                         MOKA_INLINED { SumGradientEither<8, decltype(rounding)>(strip, c, in, out, sums); });
  if (strip.lanes > kMaxLanes) return SumGradientRows(strip, c, in, out, sums);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t j) { AddGradientValue(c, in, lane, i, j, out, sums); });
}

// A strip without gaps is one stretch of memory. All bits of 0 are 0 in either type.
template <class T>
void ClearStrip(const StripShape& strip, T* out) {
  if (strip.lanes == strip.stride) {
    std::fill_n(out, strip.rows * strip.stride, T{});
    return;
  }
  for (int64_t r = 0; r < strip.rows; ++r) std::fill_n(out + r * strip.stride, strip.lanes, T{});
}

template <class T>
void ApplyGradientStrip(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams<T>& in, T* dx) {
  if (strip.lanes == 16)
    return Widest<T>([&](auto rounding)
                         MOKA_INLINED { ApplyGradientMasked<16, decltype(rounding)>(strip, c, in, dx); });
  if (strip.lanes == 8)
    return Widest<T>([&](auto rounding) MOKA_INLINED { ApplyGradientMasked<8, decltype(rounding)>(strip, c, in, dx); });
  if (strip.lanes > kMaxLanes) return ApplyGradientRows(strip, c, in, dx);
  VisitStrip(strip, [&](size_t lane, int64_t i, int64_t j) { ApplyGradientValue(c, in, lane, i, j, dx); });
}

template void SumStrip(const StripShape&, const float*, const LaneSums&);
template void ApplyStrip(const StripShape&, const ForwardCoefficients&, Activation, const float*, const float*, float*);
template void StreamStrip(const StripShape&, const ForwardCoefficients&, Activation, const float*, const float*,
                          float*);
template void SumGradientStrip(const StripShape&, const ForwardCoefficients&, const GradientStreams<float>&, float*,
                               const LaneSums&);
template void ClearStrip(const StripShape&, float*);
template void ApplyGradientStrip(const StripShape&, const BackwardCoefficients&, const GradientStreams<float>&, float*);
template void SumStrip(const StripShape&, const BFloat16*, const LaneSums&);
template void ApplyStrip(const StripShape&, const ForwardCoefficients&, Activation, const BFloat16*, const BFloat16*,
                         BFloat16*);
template void StreamStrip(const StripShape&, const ForwardCoefficients&, Activation, const BFloat16*, const BFloat16*,
                          BFloat16*);
template void SumGradientStrip(const StripShape&, const ForwardCoefficients&, const GradientStreams<BFloat16>&,
                               BFloat16*, const LaneSums&);
template void ClearStrip(const StripShape&, BFloat16*);
template void ApplyGradientStrip(const StripShape&, const BackwardCoefficients&, const GradientStreams<BFloat16>&,
                                 BFloat16*);

}  // namespace moka
