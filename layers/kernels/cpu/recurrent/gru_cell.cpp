// Built as tile_ops.cpp is: its functions become loops of every instruction set, with the same bits in each.
#include "layers/kernels/cpu/recurrent/gru_cell.h"

#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/tiles/gate_loops.h"
#include "layers/kernels/cpu/tiles/tile_math.h"
#include "layers/kernels/cpu/vector_targets.h"

namespace moka {
namespace {

using tile::Sigmoid;
using tile::Tanh;

// The sums of r and z are complete once the step's input is added.
MOKA_INLINE void AddInput(const GruForwardTile& t, int gate) {
  for (int64_t row = 0; row < t.rows; ++row) {
    float* sums = t.sums[gate] + row * t.width;
    const float* x = t.x[gate] + row * t.x_stride;
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) sums[j] = sums[j] + x[j];
  }
}

// n's sum, its part inside the reset gate's product saved first.
MOKA_INLINE void AddReset(const GruForwardTile& t) {
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* r = t.sums[0] + row * t.width;
    float* n = t.sums[2] + row * t.width;
    const float* x = t.x[2] + row * t.x_stride;
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) n[j] = n[j] + t.bias[j];
    float* inner = t.inner + row * t.state_stride;
    if (t.inner != nullptr) {
#pragma omp simd
      for (int64_t j = 0; j < t.units; ++j) inner[j] = n[j];
    }
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) n[j] = x[j] + r[j] * n[j];
  }
}

// h = (1 - z) n + z h', written as n + z (h' - n): one multiplication less. `kept` is h as the next step's product
// takes it, times that step's `going`.
MOKA_INLINE void States(const GruForwardTile& t) {
  for (int64_t row = 0; row < t.rows; ++row) {
    const int64_t at = row * t.width;
    const float* z = t.sums[1] + at;
    const float* n = t.sums[2] + at;
    const float* before = t.before + row * t.state_stride;
    float* h = t.h + row * t.state_stride;
    float* kept = t.kept + at;
    const float m = t.going[row];
    const float next = t.next_going == nullptr ? 0.0F : t.next_going[row];
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) {
      const float from = m == 0.0F ? 0.0F : m * before[j];
      const float y = n[j] + z[j] * (from - n[j]);
      h[j] = y;
      kept[j] = next == 0.0F ? 0.0F : next * y;
    }
  }
}

// Each function in a loop of its own over all rows, as in lstm_cell.cpp.
MOKA_INLINE void ForwardLoops(const GruForwardTile& t) {
  const int64_t n = t.rows * t.width;
  for (int gate = 0; gate < 2; ++gate) AddInput(t, gate);
  for (int gate = 0; gate < 2; ++gate) Sigmoids(t.sums[gate], n);
  AddReset(t);
  Tanhs(t.sums[2], n);
  States(t);
  for (int gate = 0; gate < 3 && t.gates[0] != nullptr; ++gate) SaveGate(t, gate);
}

// h = n + z (h' - n) backwards: dh gives (1 - z) dh to n, (h' - n) dh to z and z dh to h'; what n gets reaches x as it
// is and the recurrent product times r.
MOKA_INLINE void BackwardLoop(const GruBackwardRow& row) {
  const float* sums = row.sums;
  const float* dy = row.dy;
  const float* gr = row.gates[0];
  const float* gz = row.gates[1];
  const float* gn = row.gates[2];
  const float* inner = row.inner;
  const float* before = row.before;
  float* carried = row.carried;
  float* xr = row.dx[0];
  float* xz = row.dx[1];
  float* xn = row.dx[2];
  float* sr = row.dsums[0];
  float* sz = row.dsums[1];
  float* sn = row.dsums[2];
  const float m = row.going;
  const float next = row.next_going;
#pragma omp simd
  for (int64_t j = 0; j < row.units; ++j) {
    const float r = gr[j];
    const float z = gz[j];
    const float n = gn[j];
    const float from = m == 0.0F ? 0.0F : m * before[j];
    const float dh = dy[j] + (next == 0.0F ? 0.0F : next * (sums[j] + carried[j]));
    const float dn = dh * (1.0F - z) * (1.0F - n * n);
    const float dz = dh * (from - n) * z * (1.0F - z);
    const float dr = dn * inner[j] * r * (1.0F - r);
    xr[j] = dr;
    xz[j] = dz;
    xn[j] = dn;
    sr[j] = dr;
    sz[j] = dz;
    sn[j] = dn * r;
    carried[j] = dh * z;
  }
}

void Forward(const GruForwardTile& tile) { ForwardLoops(tile); }
void Backward(const GruBackwardRow& row) { BackwardLoop(row); }

#if defined(__x86_64__)
MOKA_AVX2 void ForwardAvx2(const GruForwardTile& tile) { ForwardLoops(tile); }
MOKA_AVX2 void BackwardAvx2(const GruBackwardRow& row) { BackwardLoop(row); }
MOKA_AVX512 void ForwardAvx512(const GruForwardTile& tile) { ForwardLoops(tile); }
MOKA_AVX512 void BackwardAvx512(const GruBackwardRow& row) { BackwardLoop(row); }
#endif

}  // namespace

GruRows BestGruRows() {
#if defined(__x86_64__)
  if (HasAvx512()) return {ForwardAvx512, BackwardAvx512};
  if (HasAvx2()) return {ForwardAvx2, BackwardAvx2};
#endif
  return {Forward, Backward};
}

}  // namespace moka
