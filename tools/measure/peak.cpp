// Chains of independent multiply-adds hide the latency of each other. Instruction sets are chosen by hand: what
// target_clones makes runs while the program is loaded, before a sanitizer's runtime is up.
#include "tools/measure/peak.h"

#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "core/threads/parallel.h"
#include "core/trace.h"
#include "layers/kernels/cpu/amx_shapes.h"
#include "layers/kernels/cpu/instructions.h"
#include "tools/measure/vectors.h"

namespace moka {
namespace {

constexpr int kChains = 12;  // they and both factors fit into 16 registers

template <class Vector>
inline __attribute__((always_inline)) float MultiplyAdd(int64_t steps) {
  Vector scale = Vector{} + 0.999999F;
  Vector offset = Vector{} + 1e-6F;
  // The compiler may not know the factors: a chain that starts at their fixed point, 1, would be left out.
  asm("" : "+x"(scale), "+x"(offset));
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * scale + offset;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}

__attribute__((target("avx512f"), noinline)) float WithAvx512(int64_t steps) { return MultiplyAdd<Vector64>(steps); }
__attribute__((target("avx2,fma"), noinline)) float WithAvx2(int64_t steps) { return MultiplyAdd<Vector32>(steps); }
__attribute__((noinline)) float WithBaseline(int64_t steps) { return MultiplyAdd<Vector16>(steps); }

// Dot products of pairs of bfloat16, all of them 2^-126: the sums stay where they are.
__attribute__((target("avx512f,avx512bf16"), noinline)) float WithPairs(int64_t steps) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const auto factors = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x80));
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], factors, factors);
  }
  float total = 0;
  for (const __m512& sum : sums) total += sum[0];
  return total;
}

// Dot products of four 8-bit integers.
__attribute__((target("avx512f,avx512vnni"), noinline)) float WithQuads(int64_t steps) {
  __m512i sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
  const __m512i factors = _mm512_set1_epi8(1);
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], factors, factors);
  }
  int64_t total = 0;
  for (const __m512i& sum : sums) total += sum[0];
  return static_cast<float>(total);
}

// Every tile is as large as it can be.
__attribute__((target("amx-tile"))) void OpenTiles() {
  AmxShapes shapes;
  std::fill_n(shapes.row_bytes, 8, static_cast<uint16_t>(kAmxRowBytes));
  std::fill_n(shapes.rows, 8, static_cast<uint8_t>(kAmxRows));
  LoadShapes(shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

// Four tiles of sums, each of one of two tiles from either side.
__attribute__((target("amx-tile,amx-bf16"), noinline)) float WithBFloat16Tiles(int64_t steps) {
  OpenTiles();
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 0;
}
__attribute__((target("amx-tile,amx-int8"), noinline)) float WithInt8Tiles(int64_t steps) {
  OpenTiles();
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return 0;
}

struct Chains {
  float (*run)(int64_t steps) = nullptr;  // null: the processor has none
  double operations = 0;                  // multiplications and additions of a step
  int64_t length = 1;                     // of a step, in such of float32
};

// A step of chains of vectors of floats.
template <class Vector>
constexpr double kOf = 2.0 * (sizeof(Vector) / sizeof(float)) * kChains;
// A tile's row of products takes a cycle; a step of vectors takes half a cycle a chain.
constexpr int64_t kTilesLength = 4 * kAmxRows * 2 / kChains;
constexpr double kOfTiles = 4 * 2.0 * kAmxRows * kAmxRows * kAmxRowBytes;

Chains FastestChains(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kBFloat16:
      if (HasTiles()) return {WithBFloat16Tiles, kOfTiles / 2, kTilesLength};
      return HasBFloat16Pairs() ? Chains{WithPairs, 2 * kOf<Vector64>} : Chains{};
    case Arithmetic::kInt8:
      if (HasTiles()) return {WithInt8Tiles, kOfTiles, kTilesLength};
      return HasInt8Quads() ? Chains{WithQuads, 4 * kOf<Vector64>} : Chains{};
    case Arithmetic::kFloat32: break;
  }
  if (HasAvx512()) return {WithAvx512, kOf<Vector64>};
  return HasAvx2() ? Chains{WithAvx2, kOf<Vector32>} : Chains{WithBaseline, kOf<Vector16>};
}

}  // namespace

double MeasurePeak(Arithmetic arithmetic, int64_t steps, int repeats) {
  const Chains chains = FastestChains(arithmetic);
  if (chains.run == nullptr) return 0;
  const int64_t own_steps = std::max<int64_t>(1, steps / chains.length);
  const int threads = ThreadCount();
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<float> sinks(static_cast<size_t>(threads));
    const int64_t begin = NowMicros();
    ParallelFor(threads, 1, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) sinks[static_cast<size_t>(i)] = chains.run(own_steps);
    });
    const auto micros = static_cast<double>(NowMicros() - begin);
    best = std::max(best, chains.operations * static_cast<double>(own_steps) * threads / micros * 1e-3);
  }
  return best;
}

}  // namespace moka
