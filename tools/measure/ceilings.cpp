// Copies larger than the caches measure the bandwidth; instruction sets are chosen by hand.
#include "tools/measure/ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/device/tensor.h"
#include "core/threads/parallel.h"
#include "core/threads/slow_phase.h"
#include "core/trace.h"
#include "layers/kernels/cpu/instructions.h"
#include "tools/measure/peak.h"
#include "tools/measure/vectors.h"

namespace moka {
namespace {

constexpr int kRepeats = 5;
constexpr int64_t kSteps = 4'000'000;

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

// Lines `first` up to `last`, by vectors of the target's registers.
template <class Vector>
inline __attribute__((always_inline)) void Halve(float* floats, int64_t first, int64_t last) {
  constexpr int64_t kOfLine = kLine / sizeof(Vector);
  auto* vectors = reinterpret_cast<Vector*>(floats);
  for (int64_t i = first * kOfLine; i < last * kOfLine; ++i) vectors[i] = vectors[i] * 0.5F;
}
template <class Vector>
inline __attribute__((always_inline)) float Add(const float* floats, int64_t first, int64_t last) {
  constexpr int64_t kOfLine = kLine / sizeof(Vector);
  constexpr int64_t kSums = 8;
  const auto* vectors = reinterpret_cast<const Vector*>(floats);
  Vector sums[kSums] = {};
  int64_t i = first * kOfLine;
  for (; i + kSums <= last * kOfLine; i += kSums) {
    for (int64_t k = 0; k < kSums; ++k) sums[k] += vectors[i + k];
  }
  for (; i < last * kOfLine; ++i) sums[0] += vectors[i];
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}
__attribute__((target("avx512f"), noinline)) void HalveAvx512(float* x, int64_t i, int64_t n) {
  Halve<Vector64>(x, i, n);
}
__attribute__((target("avx2,fma"), noinline)) void HalveAvx2(float* x, int64_t i, int64_t n) {
  Halve<Vector32>(x, i, n);
}
__attribute__((noinline)) void HalveBaseline(float* x, int64_t i, int64_t n) { Halve<Vector16>(x, i, n); }
__attribute__((target("avx512f"), noinline)) float AddAvx512(const float* x, int64_t i, int64_t n) {
  return Add<Vector64>(x, i, n);
}
__attribute__((target("avx2,fma"), noinline)) float AddAvx2(const float* x, int64_t i, int64_t n) {
  return Add<Vector32>(x, i, n);
}
__attribute__((noinline)) float AddBaseline(const float* x, int64_t i, int64_t n) { return Add<Vector16>(x, i, n); }

double MeasureRead() {
  const auto add = HasAvx512() ? AddAvx512 : HasAvx2() ? AddAvx2 : AddBaseline;
  const Buffer buffer = WrittenBuffer(kBytes);
  const auto* lines = reinterpret_cast<const float*>(buffer.data());
  std::atomic<float> sink = 0;
  return BestRate(kBytes / kLine, static_cast<double>(kBytes),
                  [&](int64_t first, int64_t last) { sink.store(add(lines, first, last)); });
}

double MeasureInPlace(int64_t bytes, int64_t sweeps) {
  const auto halve = HasAvx512() ? HalveAvx512 : HasAvx2() ? HalveAvx2 : HalveBaseline;
  // Zeros: numbers halved for long would become denormal, which are slow.
  const Buffer buffer = WrittenBuffer(bytes);
  std::memset(buffer.data(), 0, static_cast<size_t>(bytes));
  auto* lines = reinterpret_cast<float*>(buffer.data());
  return BestRate(bytes / kLine, 2.0 * static_cast<double>(bytes * sweeps), [&](int64_t first, int64_t last) {
    for (int64_t sweep = 0; sweep < sweeps; ++sweep) halve(lines, first, last);
  });
}

}  // namespace

Ceilings MeasureCeilings() {
  const SlowPhase phase("measuring this machine's limits");
  return {.gflops = MeasurePeak(Arithmetic::kFloat32, kSteps, kRepeats),
          .bfloat16_gflops = MeasurePeak(Arithmetic::kBFloat16, kSteps, kRepeats),
          .int8_gops = MeasurePeak(Arithmetic::kInt8, kSteps, kRepeats),
          .copy_gbs = MeasureCopy()};
}

double PeakFor(const Ceilings& ceilings, DType factors) {
  double peak = 0;
  if (factors == DType::kBFloat16) peak = ceilings.bfloat16_gflops;
  if (factors == DType::kInt8 || factors == DType::kUInt8) peak = ceilings.int8_gops;
  return peak > 0 ? peak : ceilings.gflops;
}

std::string PeaksText(const Ceilings& ceilings) {
  std::string text = fmt::format("{:.0f} GFLOP/s float32", ceilings.gflops);
  if (ceilings.bfloat16_gflops > 0) text += fmt::format(", {:.0f} bfloat16", ceilings.bfloat16_gflops);
  if (ceilings.int8_gops > 0) text += fmt::format(", {:.0f} 8-bit integers", ceilings.int8_gops);
  return text;
}

Bandwidths MeasureBandwidths() {
  constexpr int64_t kCachedBytes = int64_t{256} << 10;
  constexpr int64_t kSweeps = 4096;
  return {.read_gbs = MeasureRead(),
          .in_place_gbs = MeasureInPlace(kBytes, 1),
          .cached_gbs = MeasureInPlace(kCachedBytes * ThreadCount(), kSweeps)};
}

}  // namespace moka
