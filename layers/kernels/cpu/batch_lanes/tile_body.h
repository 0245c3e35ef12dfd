// The functions of tile.h for one width of registers. Included by one source for each width.
#pragma once

#include "layers/kernels/cpu/batch_lanes/pool_body.h"
#include "layers/kernels/cpu/batch_lanes/tile.h"
#include "layers/kernels/cpu/winograd/vector.h"

#if defined(__AVX2__) && defined(__FMA__)

namespace moka::batch_lanes {

using winograd::Indices;
using winograd::IndicesTo;
template <int kCount>
using UpTo = typename IndicesTo<kCount>::Type;

// Accumulators, a vector of x for each position and one weight fit the registers.
template <class V>
constexpr int MostPositions(int64_t outputs) {
  const int64_t most = (V::kRegisters - 1) / (outputs + 1);
  return static_cast<int>(most < kMostPositions ? most : kMostPositions);
}
template <class V>
inline constexpr int kWidestOutputs = V::kRegisters == 32 ? kMostOutputs : 4;

// sums[kP] += x[kP] * w.
template <class V, int... kP>
MOKA_INLINE void AddRow(V* sums, const V* x, V w, Indices<kP...> /*positions*/) {
  ((sums[kP] = Fma(x[kP], w, sums[kP])), ...);
}

// One tap of one channel: kPositions loads of x and kOutputs broadcasts feed kOutputs * kPositions multiply-adds.
template <class V, int kPositions, int... kO, int... kP>
MOKA_INLINE void AddStep(V* sums, const float* x, int64_t x_step, const float* w, Indices<kO...> /*outputs*/,
                         Indices<kP...> positions) {
  V in[kPositions];
  ((in[kP] = V::Load(x + kP * x_step)), ...);
  (AddRow(sums + kO * kPositions, in, V::Broadcast(w + kO), positions), ...);
}

// kDense says at compile time that positions are neighbours, so that their addresses are constants.
template <class V, int kOutputs, int kPositions, bool kDense, int... kI>
MOKA_INLINE void MultiplyAll(const Product& p, Indices<kI...> /*accumulators*/) {
  const int64_t x_step = kDense ? V::kLanes : p.x_step;
  V sums[kOutputs * kPositions];
  if (p.bias != nullptr) {
    const V lanes = V::Load(p.lanes);
    // Plus zero: padding is never -0.
    ((sums[kI] = Fma(V::Broadcast(p.bias + kI / kPositions), lanes, V::Zero())), ...);
  } else {
    ((sums[kI] = V::Load(p.y + kI / kPositions * p.y_output + kI % kPositions * p.y_step)), ...);
  }
  for (int64_t channel = 0; channel < p.channels; ++channel) {
    for (int64_t row = 0; row < p.rows; ++row) {
      const float* x = p.x + channel * p.x_channel + row * p.x_row;
      const float* w = p.w + channel * p.w_channel + row * p.w_row;
      for (int64_t tap = 0; tap < p.taps; ++tap, x += p.x_tap, w += p.w_tap) {
        AddStep<V, kPositions>(sums, x, x_step, w, UpTo<kOutputs>{}, UpTo<kPositions>{});
      }
    }
  }
  const V floor = V::All(p.floor);
  // The order of the operands keeps NaN.
  (Max(floor, sums[kI]).Store(p.y + kI / kPositions * p.y_output + kI % kPositions * p.y_step), ...);
}

template <class V, int kOutputs, int kPositions>
void MultiplyTile(const Product& p) {
  if constexpr (kPositions <= MostPositions<V>(kOutputs)) {
    constexpr UpTo<kOutputs * kPositions> kAll{};
    if (p.x_step == V::kLanes) return MultiplyAll<V, kOutputs, kPositions, true>(p, kAll);
    MultiplyAll<V, kOutputs, kPositions, false>(p, kAll);
  }
}

using ProductFunction = void (*)(const Product&);
// A table of all tile widths: the loop's shape must be known to the compiler, its use is known at run time only.
template <class V, int kOutputs, int... kP>
MOKA_INLINE ProductFunction ProductFunctionOf(int64_t positions, Indices<kP...> /*positions*/) {
  static constexpr ProductFunction kFunctions[] = {MultiplyTile<V, kOutputs, kP + 1>...};
  return kFunctions[positions - 1];
}

template <class V>
void Multiply(const Product& p) {
  constexpr UpTo<kMostPositions> kPositions{};
  switch (p.outputs) {
    case 1: return ProductFunctionOf<V, 1>(p.positions, kPositions)(p);
    case 2: return ProductFunctionOf<V, 2>(p.positions, kPositions)(p);
    case 3: return ProductFunctionOf<V, 3>(p.positions, kPositions)(p);
    case 4: return ProductFunctionOf<V, 4>(p.positions, kPositions)(p);
    default: return ProductFunctionOf<V, 5>(p.positions, kPositions)(p);
  }
}

// The gradient of weights: the same tile with taps in place of positions; dy is loaded as a vector, since lanes are
// images here.
template <class V, int kTaps, int... kO, int... kT>
MOKA_INLINE void CorrelateStep(V* sums, const float* x, int64_t x_tap, const float* dy, int64_t dy_output,
                               Indices<kO...> /*outputs*/, Indices<kT...> taps) {
  V in[kTaps];
  ((in[kT] = V::Load(x + kT * x_tap)), ...);
  (AddRow(sums + kO * kTaps, in, V::Load(dy + kO * dy_output), taps), ...);
}

// Sums are added to memory at the end: bands and blocks of images follow each other.
template <class V, int kOutputs, int kTaps, bool kDense, int... kI>
MOKA_INLINE void CorrelateAll(const Correlation& c, Indices<kI...> /*accumulators*/) {
  const int64_t x_tap = kDense ? V::kLanes : c.x_tap;
  V sums[kOutputs * kTaps];
  ((sums[kI] = V::Zero()), ...);
  for (int64_t row = 0; row < c.rows; ++row) {
    const float* x = c.x + row * c.x_row;
    const float* dy = c.dy + row * c.dy_row;
    for (int64_t position = 0; position < c.positions; ++position, x += c.x_step, dy += c.dy_step) {
      CorrelateStep<V, kTaps>(sums, x, x_tap, dy, c.dy_output, UpTo<kOutputs>{}, UpTo<kTaps>{});
    }
  }
  const auto at = [&](int i) { return c.sums + (i % kTaps * kOutputs + i / kTaps) * V::kLanes; };
  ((V::Load(at(kI)) + sums[kI]).Store(at(kI)), ...);
}

template <class V, int kOutputs, int kTaps>
void CorrelateTile(const Correlation& c) {
  if constexpr (kTaps <= MostPositions<V>(kOutputs)) {
    constexpr UpTo<kOutputs * kTaps> kAll{};
    if (c.x_tap == V::kLanes) return CorrelateAll<V, kOutputs, kTaps, true>(c, kAll);
    CorrelateAll<V, kOutputs, kTaps, false>(c, kAll);
  }
}

using CorrelationFunction = void (*)(const Correlation&);
template <class V, int kOutputs, int... kT>
MOKA_INLINE CorrelationFunction CorrelationFunctionOf(int64_t taps, Indices<kT...> /*taps*/) {
  static constexpr CorrelationFunction kFunctions[] = {CorrelateTile<V, kOutputs, kT + 1>...};
  return kFunctions[taps - 1];
}

template <class V>
void Correlate(const Correlation& c) {
  constexpr UpTo<kMostPositions> kTaps{};
  switch (c.outputs) {
    case 1: return CorrelationFunctionOf<V, 1>(c.taps, kTaps)(c);
    case 2: return CorrelationFunctionOf<V, 2>(c.taps, kTaps)(c);
    case 3: return CorrelationFunctionOf<V, 3>(c.taps, kTaps)(c);
    case 4: return CorrelationFunctionOf<V, 4>(c.taps, kTaps)(c);
    default: return CorrelationFunctionOf<V, 5>(c.taps, kTaps)(c);
  }
}

// dy of several outputs is interleaved, so that the loads of a step lie in one or two cache lines.
template <class V>
void Gather(const float* dy, int64_t step, int64_t outputs, int64_t positions, float* to) {
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < positions; ++i) {
      V::Load(dy + o * step + i * V::kLanes).Store(to + (i * outputs + o) * V::kLanes);
    }
  }
}

// Four chains hide the latency of additions; they are joined in a fixed order.
template <class V>
MOKA_INLINE V SumOf(const float* x, int64_t length) {
  if (length == 1) return V::Load(x);
  constexpr int64_t kChains = 4;  // additions under way at a time
  V sums[kChains] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  int64_t i = 0;
  for (; i + kChains <= length; i += kChains) {
    for (int64_t j = 0; j < kChains; ++j) sums[j] = sums[j] + V::Load(x + (i + j) * V::kLanes);
  }
  for (; i < length; ++i) sums[0] = sums[0] + V::Load(x + i * V::kLanes);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Four vectors at a time are summed over their lanes, which costs as many shuffles as one alone.
template <class V>
void Sum(const float* x, int64_t count, int64_t length, float* to) {
  const int64_t step = length * V::kLanes;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float* four = x + i * step;
    V::Sums({SumOf<V>(four, length), SumOf<V>(four + step, length), SumOf<V>(four + 2 * step, length),
             SumOf<V>(four + 3 * step, length)},
            to + i);
  }
  for (; i < count; ++i) {
    float four[4];
    V::Sums({SumOf<V>(x + i * step, length), V::Zero(), V::Zero(), V::Zero()}, four);
    to[i] = four[0];
  }
}

template <class V>
inline constexpr Functions kFunctionsOf = {V::kLanes,   kWidestOutputs<V>, MostPositions<V>,
                                           Multiply<V>, Gather<V>,         Correlate<V>,
                                           Sum<V>,      PoolForward<V>,    PoolBackward<V>};

}  // namespace moka::batch_lanes
#endif
