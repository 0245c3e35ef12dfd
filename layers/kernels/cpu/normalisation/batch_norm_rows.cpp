// Rows are cut into blocks of channels whose sums fit the first level of cache beside the rows; what is left of eight
// takes a plain loop in double, as strips of other widths do.
#include "layers/kernels/cpu/normalisation/batch_norm_rows.h"

#include <algorithm>

#include "layers/kernels/cpu/normalisation/batch_norm_vectors.h"

namespace moka {
namespace {

constexpr int64_t kBlock = 256;  // channels
constexpr size_t kVectors = kBlock / 8;

// Two sums of a block's channels: in float for a few rows, then in double.
struct BlockSums {
  MOKA_INLINE void Begin(size_t vectors) {
    for (size_t k = 0; k < vectors; ++k) {
      first[k] = Float8{};
      second[k] = Float8{};
    }
  }
  MOKA_INLINE void Widen(size_t vectors) {
    for (size_t k = 0; k < vectors; ++k) {
      AddTo(first[k], all_first[2 * k], all_first[2 * k + 1]);
      AddTo(second[k], all_second[2 * k], all_second[2 * k + 1]);
    }
  }
  MOKA_INLINE static void AddTo(const Float8& v, Double4& low, Double4& high) {
    const Float4 a = __builtin_shufflevector(v, v, 0, 1, 2, 3);
    const Float4 b = __builtin_shufflevector(v, v, 4, 5, 6, 7);
    low += __builtin_convertvector(a, Double4);
    high += __builtin_convertvector(b, Double4);
  }

  std::array<Float8, kVectors> first;
  std::array<Float8, kVectors> second;
  std::array<Double4, 2 * kVectors> all_first{};
  std::array<Double4, 2 * kVectors> all_second{};
};

// Calls f(first channel, whole vectors) for a strip's blocks, then slow(first channel, channels) for the rest.
template <class F, class Slow>
MOKA_INLINE void ForBlocks(const StripShape& strip, const F& f, const Slow& slow) {
  const int64_t whole = strip.lanes / 8 * 8;
  for (int64_t c = 0; c < whole; c += kBlock) f(c, static_cast<size_t>(std::min(kBlock, whole - c) / 8));
  if (whole < strip.lanes) slow(whole, strip.lanes - whole);
}

// The coefficients from a channel on, as ForwardRow has them in registers.
struct ForwardFrom {
  MOKA_INLINE ForwardFrom(const ForwardCoefficients& c, int64_t channel)
      : mean(c.mean + channel), factor(c.factor + channel), shift(c.shift + channel) {}
  MOKA_INLINE void Apply(Float8& x, size_t k) const {
    Float8 m;
    Float8 f;
    Float8 s;
    Load(m, mean + 8 * k);
    Load(f, factor + 8 * k);
    Load(s, shift + 8 * k);
    x = (x - m) * f + s;
  }
  const float* mean;
  const float* factor;
  const float* shift;
};

// As SumBody's: deviations from the first row.
template <class T>
MOKA_INLINE void SumBlock(const StripShape& strip, int64_t channel, size_t vectors, const T* x, const LaneSums& to) {
  std::array<Float8, kVectors> pivot;
  x += channel;
  for (size_t k = 0; k < vectors; ++k) Load(pivot[k], x + 8 * k);
  BlockSums sums;
  for (int64_t r = 0; r < strip.rows;) {
    sums.Begin(vectors);
    for (const int64_t end = std::min(strip.rows, r + kRowsInFloat); r < end; ++r, x += strip.stride) {
      for (size_t k = 0; k < vectors; ++k) {
        Float8 v;
        Load(v, x + 8 * k);
        v -= pivot[k];
        sums.first[k] += v;
        sums.second[k] += v * v;
      }
    }
    sums.Widen(vectors);
  }
  const auto rows = static_cast<double>(strip.rows);
  for (size_t i = 0; i < 8 * vectors; ++i) {
    const double p = pivot[i / 8][i % 8];
    const double first = sums.all_first[i / 4][i % 4];
    to.first[static_cast<size_t>(channel) + i] += first + rows * p;
    to.second[static_cast<size_t>(channel) + i] += sums.all_second[i / 4][i % 4] + 2 * p * first + rows * p * p;
  }
}

template <class R, bool kSums, class T>
MOKA_INLINE void ApplyRow(const ForwardFrom& row, size_t vectors, const Float8& floor, const T* x, const T* residual,
                          T* y) {
  for (size_t k = 0; k < vectors; ++k) {
    Float8 v;
    Load(v, x + 8 * k);
    row.Apply(v, k);
    if constexpr (kSums) {
      Float8 other;
      Load(other, residual + 8 * k);
      v += other;
    }
    v = v < floor ? Float8{} : v;
    Store<R>(v, y + 8 * k);
  }
}

template <class R, bool kSums, class T>
MOKA_INLINE void ApplyBlock(const StripShape& strip, const ForwardCoefficients& c, Activation activation,
                            int64_t channel, size_t vectors, const T* x, const T* residual, T* y) {
  const ForwardFrom row(c, channel);
  const Float8 floor = Float8{} - (activation == Activation::kRelu ? 0.0F : __builtin_inff());
  for (int64_t r = 0; r < strip.rows; ++r) {
    const int64_t at = r * strip.stride + channel;
    ApplyRow<R, kSums>(row, vectors, floor, x + at, kSums ? residual + at : nullptr, y + r * strip.y_stride + channel);
  }
}

template <class R, Mask kMask, bool kWrites, class T>
MOKA_INLINE void SumGradientBlock(const StripShape& strip, const ForwardCoefficients& c, int64_t channel,
                                  size_t vectors, const GradientStreams<T>& in, T* out, const LaneSums& to) {
  const ForwardFrom row(c, channel);
  BlockSums sums;
  for (int64_t r = 0; r < strip.rows;) {
    sums.Begin(vectors);
    for (const int64_t end = std::min(strip.rows, r + kRowsInFloat); r < end; ++r) {
      const int64_t i = r * strip.stride + channel;
      const int64_t j = r * strip.y_stride + channel;
      for (size_t k = 0; k < vectors; ++k) {
        const auto lane = static_cast<int64_t>(8 * k);
        Float8 v;
        Load(v, in.x + i + lane);
        Float8 g;
        LoadGradient<kMask>(in, row, v, j + lane, k, g);
        if constexpr (kWrites) Store<R>(g, out + i + lane);
        Float8 mean;
        Load(mean, row.mean + lane);
        sums.first[k] += g;
        sums.second[k] += g * (v - mean);
      }
    }
    sums.Widen(vectors);
  }
  for (size_t i = 0; i < 8 * vectors; ++i) {
    to.first[static_cast<size_t>(channel) + i] += sums.all_first[i / 4][i % 4];
    to.second[static_cast<size_t>(channel) + i] += sums.all_second[i / 4][i % 4];
  }
}

template <class R, Mask kMask, class T>
MOKA_INLINE void ApplyGradientBlock(const StripShape& strip, const BackwardCoefficients& c, int64_t channel,
                                    size_t vectors, const GradientStreams<T>& in, T* dx) {
  const ForwardFrom row(c.forward, channel);
  for (int64_t r = 0; r < strip.rows; ++r) {
    const int64_t i = r * strip.stride + channel;
    const int64_t j = r * strip.y_stride + channel;
    for (size_t k = 0; k < vectors; ++k) {
      const auto lane = static_cast<int64_t>(8 * k);
      Float8 v;
      Load(v, in.x + i + lane);
      Float8 g;
      LoadGradient<kMask>(in, row, v, j + lane, k, g);
      Float8 mean;
      Float8 factor;
      Float8 average;
      Float8 slope;
      Load(mean, row.mean + lane);
      Load(factor, row.factor + lane);
      Load(average, c.average + channel + lane);
      Load(slope, c.slope + channel + lane);
      Store<R>((g - average - (v - mean) * slope) * factor, dx + i + lane);
    }
  }
}

// f<kMask>() for the mask there is, in one body each.
template <class F>
MOKA_INLINE void WithMask(Mask mask, const F& f) {
  switch (mask) {
    case Mask::kNone: return f.template operator()<Mask::kNone>();
    case Mask::kOutput: return f.template operator()<Mask::kOutput>();
    case Mask::kInput: return f.template operator()<Mask::kInput>();
  }
}

// Calls f(channel, offset in x, offset in y) for some channels of all rows.
template <class F>
void VisitChannels(const StripShape& strip, int64_t channel, int64_t channels, F&& f) {
  for (int64_t r = 0; r < strip.rows; ++r) {
    for (int64_t c = channel; c < channel + channels; ++c) {
      f(static_cast<size_t>(c), r * strip.stride + c, r * strip.y_stride + c);
    }
  }
}

}  // namespace

template <class T>
void SumRows(const StripShape& strip, const T* x, const LaneSums& sums) {
  ForBlocks(
      strip,
      [&](int64_t channel, size_t vectors) {
        Widest<T>([&](auto) MOKA_INLINED { SumBlock(strip, channel, vectors, x, sums); });
      },
      [&](int64_t channel, int64_t channels) {
        VisitChannels(strip, channel, channels, [&](size_t c, int64_t i, int64_t) { AddValue(x, i, c, sums); });
      });
}

template <class T>
void ApplyRows(const StripShape& strip, const ForwardCoefficients& c, Activation activation, const T* x,
               const T* residual, T* y) {
  ForBlocks(
      strip,
      [&](int64_t channel, size_t vectors) {
        Widest<T>([&](auto rounding) MOKA_INLINED {
          using R = decltype(rounding);
          if (residual == nullptr) {
            ApplyBlock<R, false>(strip, c, activation, channel, vectors, x, residual, y);
          } else {
            ApplyBlock<R, true>(strip, c, activation, channel, vectors, x, residual, y);
          }
        });
      },
      [&](int64_t channel, int64_t channels) {
        VisitChannels(strip, channel, channels, [&](size_t lane, int64_t i, int64_t j) {
          ApplyValue(c, activation, lane, x, residual, i, y, j);
        });
      });
}

template <class T>
void SumGradientRows(const StripShape& strip, const ForwardCoefficients& c, const GradientStreams<T>& in, T* out,
                     const LaneSums& sums) {
  ForBlocks(
      strip,
      [&](int64_t channel, size_t vectors) {
        Widest<T>([&](auto rounding) MOKA_INLINED {
          using R = decltype(rounding);
          WithMask(in.mask, [&]<Mask kMask>() MOKA_INLINED {
            if (out == nullptr) {
              SumGradientBlock<R, kMask, false>(strip, c, channel, vectors, in, out, sums);
            } else {
              SumGradientBlock<R, kMask, true>(strip, c, channel, vectors, in, out, sums);
            }
          });
        });
      },
      [&](int64_t channel, int64_t channels) {
        VisitChannels(strip, channel, channels,
                      [&](size_t lane, int64_t i, int64_t j) { AddGradientValue(c, in, lane, i, j, out, sums); });
      });
}

template <class T>
void ApplyGradientRows(const StripShape& strip, const BackwardCoefficients& c, const GradientStreams<T>& in, T* dx) {
  ForBlocks(
      strip,
      [&](int64_t channel, size_t vectors) {
        Widest<T>([&](auto rounding) MOKA_INLINED {
          using R = decltype(rounding);
          WithMask(in.mask, [&]<Mask kMask>()
                                MOKA_INLINED { ApplyGradientBlock<R, kMask>(strip, c, channel, vectors, in, dx); });
        });
      },
      [&](int64_t channel, int64_t channels) {
        VisitChannels(strip, channel, channels,
                      [&](size_t lane, int64_t i, int64_t j) { ApplyGradientValue(c, in, lane, i, j, dx); });
      });
}

template void SumRows(const StripShape&, const float*, const LaneSums&);
template void ApplyRows(const StripShape&, const ForwardCoefficients&, Activation, const float*, const float*, float*);
template void SumGradientRows(const StripShape&, const ForwardCoefficients&, const GradientStreams<float>&, float*,
                              const LaneSums&);
template void ApplyGradientRows(const StripShape&, const BackwardCoefficients&, const GradientStreams<float>&, float*);
template void SumRows(const StripShape&, const BFloat16*, const LaneSums&);
template void ApplyRows(const StripShape&, const ForwardCoefficients&, Activation, const BFloat16*, const BFloat16*,
                        BFloat16*);
template void SumGradientRows(const StripShape&, const ForwardCoefficients&, const GradientStreams<BFloat16>&,
                              BFloat16*, const LaneSums&);
template void ApplyGradientRows(const StripShape&, const BackwardCoefficients&, const GradientStreams<BFloat16>&,
                                BFloat16*);

}  // namespace moka
