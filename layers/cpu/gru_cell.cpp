// Built as tile_ops.cpp is: its functions become loops of every instruction set, with the same bits in each.
#include "layers/cpu/gru_cell.h"

#include "layers/cpu/instructions.h"
#include "layers/cpu/tile_math.h"
#include "layers/cpu/vector_targets.h"

namespace moka {
namespace {

using tile::Sigmoid;
using tile::Tanh;

MOKA_INLINE void ForwardLoop(const GruForwardRow& row) {
  const float* sr = row.sums[0];
  const float* sz = row.sums[1];
  const float* sn = row.sums[2];
  const float* xr = row.x[0];
  const float* xz = row.x[1];
  const float* xn = row.x[2];
  const float* bias = row.bias;
  const float* before = row.before;
  float* gr = row.gates[0];
  float* gz = row.gates[1];
  float* gn = row.gates[2];
  float* inner = row.inner;
  float* h = row.h;
  float* kept = row.kept;
  const float m = row.going;
  const float next = row.next_going;
#pragma omp simd
  for (int64_t j = 0; j < row.units; ++j) {
    const float r = Sigmoid(sr[j] + xr[j]);
    const float z = Sigmoid(sz[j] + xz[j]);
    const float q = sn[j] + bias[j];
    const float n = Tanh(xn[j] + r * q);
    const float from = m == 0.0F ? 0.0F : m * before[j];
    const float y = n + z * (from - n);
    gr[j] = r;
    gz[j] = z;
    gn[j] = n;
    inner[j] = q;
    h[j] = y;
    kept[j] = next == 0.0F ? 0.0F : next * y;
  }
}

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

void Forward(const GruForwardRow& row) { ForwardLoop(row); }
void Backward(const GruBackwardRow& row) { BackwardLoop(row); }

#if defined(__x86_64__)
MOKA_AVX2 void ForwardAvx2(const GruForwardRow& row) { ForwardLoop(row); }
MOKA_AVX2 void BackwardAvx2(const GruBackwardRow& row) { BackwardLoop(row); }
MOKA_AVX512 void ForwardAvx512(const GruForwardRow& row) { ForwardLoop(row); }
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
