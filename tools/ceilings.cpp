#include "tools/ceilings.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "core/tensor.h"
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

double MeasureGflops() {
  double best = 0;
  const int threads = ThreadCount();
  const Chains chains = FastestChains();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::vector<float> sinks(static_cast<size_t>(threads));
    const int64_t begin = NowMicros();
    ParallelFor(threads, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) sinks[static_cast<size_t>(i)] = chains(kSteps);
    });
    const auto micros = static_cast<double>(NowMicros() - begin);
    const double flops = 2.0 * kLanes * kChains * static_cast<double>(kSteps) * threads;
    best = std::max(best, flops / micros * 1e-3);
  }
  return best;
}

double MeasureCopy() {
  constexpr int64_t kBytes = int64_t{128} << 20;
  const Buffer from = Buffer::Allocate(kBytes);
  const Buffer to = Buffer::Allocate(kBytes);
  std::memset(from.data(), 1, kBytes);  // pages that were never written would all be one page, in the cache
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const int64_t begin = NowMicros();
    ParallelFor(kBytes / 64, 1, [&](int64_t first, int64_t last, int) {
      std::memcpy(to.data() + first * 64, from.data() + first * 64, static_cast<size_t>((last - first) * 64));
    });
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / static_cast<double>(NowMicros() - begin) * 1e-3);
  }
  return best;
}

}  // namespace

Ceilings MeasureCeilings() { return {MeasureGflops(), MeasureCopy()}; }

}  // namespace moka
