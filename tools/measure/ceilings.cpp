// Chains of independent multiply-adds measure the peak, copies larger than the caches the bandwidth; instruction sets
// are chosen by hand.
#include "tools/measure/ceilings.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/device/tensor.h"
#include "core/threads/parallel.h"
#include "core/threads/slow_phase.h"
#include "core/trace.h"

namespace moka {
namespace {

constexpr int kRepeats = 5;

using Vector = float __attribute__((vector_size(64)));
constexpr int kChains = 12;  // independent sums hide the latency of a fused multiply-add
constexpr int64_t kSteps = 4'000'000;
constexpr int kLanes = 16;

inline __attribute__((always_inline)) float MultiplyAdd(int64_t steps) {
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  const Vector scale = Vector{} + 0.999999F;
  const Vector offset = Vector{} + 1e-6F;
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * scale + offset;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}

// The same for three instruction sets. They are chosen by hand: what target_clones makes runs while the program is
// loaded, before a sanitizer's runtime is up.
__attribute__((target("avx512f"), noinline)) float WithAvx512(int64_t steps) { return MultiplyAdd(steps); }
__attribute__((target("avx2,fma"), noinline)) float WithAvx2(int64_t steps) { return MultiplyAdd(steps); }
__attribute__((noinline)) float WithBaseline(int64_t steps) { return MultiplyAdd(steps); }

using Chains = float (*)(int64_t);
Chains FastestChains() {
  if (__builtin_cpu_supports("avx512f") != 0) return WithAvx512;
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 ? WithAvx2 : WithBaseline;
}

constexpr int64_t kBytes = int64_t{128} << 20;
constexpr int64_t kLine = 64;

// Best of some repeats, in GB/s: body(first, last) of lines moves `bytes` in all.
template <class Body>
double BestRate(int64_t lines, double bytes, Body&& body) {
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const int64_t begin = NowMicros();
    ParallelFor(lines, 1, [&](int64_t first, int64_t last, int) { body(first, last); });
    best = std::max(best, bytes / static_cast<double>(NowMicros() - begin) * 1e-3);
  }
  return best;
}

Buffer WrittenBuffer(int64_t bytes) {
  Buffer buffer = Buffer::Allocate(bytes);
  std::memset(buffer.data(), 1, static_cast<size_t>(bytes));  // pages never written would all be one page, in the cache
  return buffer;
}

double MeasureCopy() {
  const Buffer from = WrittenBuffer(kBytes);
  const Buffer to = Buffer::Allocate(kBytes);
  return BestRate(kBytes / kLine, 2.0 * static_cast<double>(kBytes), [&](int64_t first, int64_t last) {
    std::memcpy(to.data() + first * kLine, from.data() + first * kLine, static_cast<size_t>((last - first) * kLine));
  });
}

inline __attribute__((always_inline)) void Halve(Vector* lines, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) lines[i] = lines[i] * 0.5F;
}
inline __attribute__((always_inline)) float Add(const Vector* lines, int64_t first, int64_t last) {
  Vector sums[8] = {};
  int64_t i = first;
  for (; i + 8 <= last; i += 8) {
    for (int64_t k = 0; k < 8; ++k) sums[k] += lines[i + k];
  }
  for (; i < last; ++i) sums[0] += lines[i];
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}
__attribute__((target("avx512f"), noinline)) void HalveAvx512(Vector* x, int64_t i, int64_t n) { Halve(x, i, n); }
__attribute__((target("avx2,fma"), noinline)) void HalveAvx2(Vector* x, int64_t i, int64_t n) { Halve(x, i, n); }
__attribute__((noinline)) void HalveBaseline(Vector* x, int64_t i, int64_t n) { Halve(x, i, n); }
__attribute__((target("avx512f"), noinline)) float AddAvx512(const Vector* x, int64_t i, int64_t n) {
  return Add(x, i, n);
}
__attribute__((target("avx2,fma"), noinline)) float AddAvx2(const Vector* x, int64_t i, int64_t n) {
  return Add(x, i, n);
}
__attribute__((noinline)) float AddBaseline(const Vector* x, int64_t i, int64_t n) { return Add(x, i, n); }

double MeasureRead() {
  const Chains chains = FastestChains();
  const auto add = chains == WithAvx512 ? AddAvx512 : chains == WithAvx2 ? AddAvx2 : AddBaseline;
  const Buffer buffer = WrittenBuffer(kBytes);
  const auto* lines = reinterpret_cast<const Vector*>(buffer.data());
  std::atomic<float> sink = 0;
  return BestRate(kBytes / kLine, static_cast<double>(kBytes),
                  [&](int64_t first, int64_t last) { sink.store(add(lines, first, last)); });
}

double MeasureInPlace(int64_t bytes, int64_t sweeps) {
  const Chains chains = FastestChains();
  const auto halve = chains == WithAvx512 ? HalveAvx512 : chains == WithAvx2 ? HalveAvx2 : HalveBaseline;
  // Zeros: numbers halved for long would become denormal, which are slow.
  const Buffer buffer = WrittenBuffer(bytes);
  std::memset(buffer.data(), 0, static_cast<size_t>(bytes));
  auto* lines = reinterpret_cast<Vector*>(buffer.data());
  return BestRate(bytes / kLine, 2.0 * static_cast<double>(bytes * sweeps), [&](int64_t first, int64_t last) {
    for (int64_t sweep = 0; sweep < sweeps; ++sweep) halve(lines, first, last);
  });
}

}  // namespace

double MeasureGflops(int64_t steps, int repeats) {
  double best = 0;
  const int threads = ThreadCount();
  const Chains chains = FastestChains();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<float> sinks(static_cast<size_t>(threads));
    const int64_t begin = NowMicros();
    ParallelFor(threads, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) sinks[static_cast<size_t>(i)] = chains(steps);
    });
    const auto micros = static_cast<double>(NowMicros() - begin);
    const double flops = 2.0 * kLanes * kChains * static_cast<double>(steps) * threads;
    best = std::max(best, flops / micros * 1e-3);
  }
  return best;
}

Ceilings MeasureCeilings() {
  const SlowPhase phase("measuring this machine's limits");
  return {MeasureGflops(kSteps, kRepeats), MeasureCopy()};
}

Bandwidths MeasureBandwidths() {
  constexpr int64_t kCachedBytes = int64_t{256} << 10;
  constexpr int64_t kSweeps = 4096;
  return {.read_gbs = MeasureRead(),
          .in_place_gbs = MeasureInPlace(kBytes, 1),
          .cached_gbs = MeasureInPlace(kCachedBytes * ThreadCount(), kSweeps)};
}

}  // namespace moka
