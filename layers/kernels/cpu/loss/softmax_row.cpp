// Built as tile_ops.cpp is: loops of every instruction set, with the same bits in each.
#include "layers/kernels/cpu/loss/softmax_row.h"

#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/tiles/tile_math.h"
#include "layers/kernels/cpu/vector_targets.h"

namespace moka {
namespace {

constexpr int64_t kLanes = 16;

MOKA_INLINE float Larger(float a, float b) { return a > b ? a : (a != a ? a : b); }

// Sixteen lanes, as in one chain each comparison would wait for the one before it.
MOKA_INLINE float Largest(const float* x, int64_t n) {
  float lanes[kLanes];
  for (int64_t j = 0; j < kLanes; ++j) lanes[j] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = Larger(lanes[j], x[i + j]);
  }
  for (; i < n; ++i) lanes[0] = Larger(lanes[0], x[i]);
  float largest = lanes[0];
  for (int64_t j = 1; j < kLanes; ++j) largest = Larger(largest, lanes[j]);
  return largest;
}

// The sum of exp(x[i] - largest), which also go to p if they are kept.
template <bool kKeeps>
MOKA_INLINE double Exponentials(const float* x, float* p, int64_t n, float largest) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_prefetch(x + n + i);  // the next row, whose maximum is found faster than memory answers
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) {
      const float e = tile::Exp(x[i + j] - largest);
      if constexpr (kKeeps) p[i + j] = e;
      lanes[j] += static_cast<double>(e);
    }
  }
  for (; i < n; ++i) {
    const float e = tile::Exp(x[i] - largest);
    if constexpr (kKeeps) p[i] = e;
    lanes[0] += static_cast<double>(e);
  }
  double sum = 0;
  for (int64_t j = 0; j < kLanes; ++j) sum += lanes[j];
  return sum;
}

MOKA_INLINE float SoftmaxLoop(const float* x, float* p, int64_t n, int64_t at) {
  const float largest = Largest(x, n);
  if (p == nullptr) {
    const auto scale = static_cast<float>(1 / Exponentials<false>(x, p, n, largest));
    return tile::Exp(x[at] - largest) * scale;
  }
  const auto scale = static_cast<float>(1 / Exponentials<true>(x, p, n, largest));
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) p[j] *= scale;
  return p[at];
}

MOKA_INLINE double CostsLoop(const float* x, const float* p, int64_t n, double most) {
  const double total = static_cast<double>(Largest(x, n)) - __builtin_log(static_cast<double>(Largest(p, n)));
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) {
      const double cost = total - static_cast<double>(x[i + j]);
      lanes[j] += cost > most ? most : cost;
    }
  }
  for (; i < n; ++i) {
    const double cost = total - static_cast<double>(x[i]);
    lanes[0] += cost > most ? most : cost;
  }
  double sum = 0;
  for (int64_t j = 0; j < kLanes; ++j) sum += lanes[j];
  return sum;
}

double Costs(const float* x, const float* p, int64_t n, double most) { return CostsLoop(x, p, n, most); }

float Softmax(const float* x, float* p, int64_t n, int64_t at) { return SoftmaxLoop(x, p, n, at); }

#if defined(__x86_64__)
MOKA_AVX2 float SoftmaxAvx2(const float* x, float* p, int64_t n, int64_t at) { return SoftmaxLoop(x, p, n, at); }
MOKA_AVX2 double CostsAvx2(const float* x, const float* p, int64_t n, double most) { return CostsLoop(x, p, n, most); }
MOKA_AVX512 double CostsAvx512(const float* x, const float* p, int64_t n, double most) {
  return CostsLoop(x, p, n, most);
}
MOKA_AVX512 float SoftmaxAvx512(const float* x, float* p, int64_t n, int64_t at) { return SoftmaxLoop(x, p, n, at); }
#endif

}  // namespace

SoftmaxRow BestSoftmaxRow() {
#if defined(__x86_64__)
  if (HasAvx512()) return SoftmaxAvx512;
  if (HasAvx2()) return SoftmaxAvx2;
#endif
  return Softmax;
}

CostsRow BestCostsRow() {
#if defined(__x86_64__)
  if (HasAvx512()) return CostsAvx512;
  if (HasAvx2()) return CostsAvx2;
#endif
  return Costs;
}

}  // namespace moka
