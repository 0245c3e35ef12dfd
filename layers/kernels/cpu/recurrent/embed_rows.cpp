// Sums of up to six vectors of eight columns stay in registers while a sentence's words pass by.
#include "layers/kernels/cpu/recurrent/embed_rows.h"

#include <cstring>

#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/vector_targets.h"

namespace moka {
namespace {

// No wider than AVX2's registers: compilers keep wider ones in memory.
using Vector [[gnu::vector_size(32)]] = float;
constexpr int64_t kLanes = 8;
constexpr int kMostVectors = 6;  // with their ramps and what is loaded, AVX2's sixteen registers

[[gnu::always_inline]] inline void Load(Vector& v, const float* from) { std::memcpy(&v, from, sizeof(v)); }
[[gnu::always_inline]] inline void Store(const Vector& v, float* to) { std::memcpy(to, &v, sizeof(v)); }

[[gnu::always_inline]] inline bool HasOtherLoop(const float* values, int64_t count, float than) {
  using Halves [[gnu::vector_size(32)]] = int64_t;
  if (count < kLanes) {
    for (int64_t i = 0; i < count; ++i) {
      if (values[i] != than) return true;
    }
    return false;
  }
  Halves differ{};
  for (int64_t i = 0; i < count; i += kLanes) {
    Vector v;
    Load(v, values + (i + kLanes <= count ? i : count - kLanes));  // the last one looks at some values again
    differ |= reinterpret_cast<Halves>(v != than);
  }
  return (differ[0] | differ[1] | differ[2] | differ[3]) != 0;
}

template <int kVectors>
[[gnu::always_inline]] inline void SumVectors(const EmbedRows& r, const float* table, float* y, int64_t k) {
  Vector sums[kVectors];
  Vector ramp[kVectors];
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) sums[v] = Vector{};
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) Load(ramp[v], r.ramp + k + v * kLanes);
  for (int64_t i = 0; i < r.count; ++i) {
    const EmbedWord& word = r.words[i];
    const float* row = table + word.at + k;
#pragma GCC unroll 6
    for (int v = 0; v < kVectors; ++v) {
      Vector from;
      Load(from, row + v * kLanes);
      sums[v] += (word.first + word.slope * ramp[v]) * from;
    }
  }
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) Store(sums[v], y + k + v * kLanes);
}

template <int kVectors>
[[gnu::always_inline]] inline void AddVectors(const EmbedRows& r, const float* dy, float* table, int64_t k) {
  Vector from[kVectors];
  Vector ramp[kVectors];
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) Load(from[v], dy + k + v * kLanes);
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) Load(ramp[v], r.ramp + k + v * kLanes);
  for (int64_t i = 0; i < r.count; ++i) {
    const EmbedWord& word = r.words[i];
    float* row = table + word.at + k;
#pragma GCC unroll 6
    for (int v = 0; v < kVectors; ++v) {
      Vector to;
      Load(to, row + v * kLanes);
      to += (word.first + word.slope * ramp[v]) * from[v];
      Store(to, row + v * kLanes);
    }
  }
}

// Calls body.operator()<kVectors>(k) for each group of vectors, and gives the column behind the last.
template <class Body>
[[gnu::always_inline]] inline int64_t ForVectors(const EmbedRows& r, Body&& body) {
  int64_t k = r.begin;
  while (r.end - k >= kLanes) {
    const int64_t vectors = (r.end - k) / kLanes;
    if (vectors >= kMostVectors) {
      body.template operator()<kMostVectors>(k);
      k += kMostVectors * kLanes;
    } else if (vectors >= 4) {
      body.template operator()<4>(k);
      k += 4 * kLanes;
    } else if (vectors >= 2) {
      body.template operator()<2>(k);
      k += 2 * kLanes;
    } else {
      body.template operator()<1>(k);
      k += kLanes;
    }
  }
  return k;
}

[[gnu::always_inline]] inline void SumLoop(const EmbedRows& r, const float* table, float* y) {
  int64_t k = ForVectors(
      r, [&]<int kVectors>(int64_t at) __attribute__((always_inline)) { SumVectors<kVectors>(r, table, y, at); });
  for (; k < r.end; ++k) {
    float sum = 0;
    for (int64_t i = 0; i < r.count; ++i) {
      sum += (r.words[i].first + r.words[i].slope * r.ramp[k]) * table[r.words[i].at + k];
    }
    y[k] = sum;
  }
}

[[gnu::always_inline]] inline void AddLoop(const EmbedRows& r, const float* dy, float* table) {
  int64_t k = ForVectors(
      r, [&]<int kVectors>(int64_t at) __attribute__((always_inline)) { AddVectors<kVectors>(r, dy, table, at); });
  for (; k < r.end; ++k) {
    for (int64_t i = 0; i < r.count; ++i) {
      table[r.words[i].at + k] += (r.words[i].first + r.words[i].slope * r.ramp[k]) * dy[k];
    }
  }
}

bool HasOther(const float* values, int64_t count, float than) { return HasOtherLoop(values, count, than); }
void Sum(const EmbedRows& rows, const float* table, float* y) { SumLoop(rows, table, y); }
void Add(const EmbedRows& rows, const float* dy, float* table) { AddLoop(rows, dy, table); }

#if defined(__x86_64__)
MOKA_AVX2 bool HasOtherAvx2(const float* values, int64_t count, float than) {
  return HasOtherLoop(values, count, than);
}
MOKA_AVX2 void SumAvx2(const EmbedRows& rows, const float* table, float* y) { SumLoop(rows, table, y); }
MOKA_AVX2 void AddAvx2(const EmbedRows& rows, const float* dy, float* table) { AddLoop(rows, dy, table); }
#endif

}  // namespace

EmbedLoops BestEmbedLoops() {
#if defined(__x86_64__)
  if (HasAvx2()) return {HasOtherAvx2, SumAvx2, AddAvx2};
#endif
  return {HasOther, Sum, Add};
}

}  // namespace moka
