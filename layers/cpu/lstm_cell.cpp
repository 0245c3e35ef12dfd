// Built as tile_ops.cpp is: its functions become loops of every instruction set, with the same bits in each.
#include "layers/cpu/lstm_cell.h"

#include "layers/cpu/instructions.h"
#include "layers/cpu/tile_math.h"
#include "layers/cpu/vector_targets.h"

namespace moka {
namespace {

using tile::Sigmoid;
using tile::Tanh;

MOKA_INLINE void ForwardLoop(const LstmForwardRow& r) {
  const float* const* s = r.sums;
  const float* si = s[0];
  const float* sf = s[1];
  const float* so = s[2];
  const float* sg = s[3];
  const float* xi = r.x[0];
  const float* xf = r.x[1];
  const float* xo = r.x[2];
  const float* xg = r.x[3];
  float* gi = r.gates[0];
  float* gf = r.gates[1];
  float* go = r.gates[2];
  float* gg = r.gates[3];
  const float* before = r.c_before;
  float* cells = r.c;
  float* h = r.h;
  float* kept = r.kept;
  const float m = r.going;
  const float next = r.next_going;
  const float bias = r.forget_bias;
#pragma omp simd
  for (int64_t j = 0; j < r.units; ++j) {
    const float i = Sigmoid(si[j] + xi[j]);
    const float f = Sigmoid(sf[j] + xf[j] + bias);
    const float o = Sigmoid(so[j] + xo[j]);
    const float g = Tanh(sg[j] + xg[j]);
    const float from = m == 0.0F ? 0.0F : m * f * before[j];
    const float c = i * g + from;
    const float y = o * Tanh(c);
    gi[j] = i;
    gf[j] = f;
    go[j] = o;
    gg[j] = g;
    cells[j] = c;
    h[j] = y;
    kept[j] = next == 0.0F ? 0.0F : next * y;
  }
}

MOKA_INLINE void BackwardLoop(const LstmBackwardRow& r) {
  const float* sums = r.sums;
  const float* dy = r.dy;
  const float* gi = r.gates[0];
  const float* gf = r.gates[1];
  const float* go = r.gates[2];
  const float* gg = r.gates[3];
  const float* cells = r.c;
  const float* before = r.c_before;
  float* xi = r.dx[0];
  float* xf = r.dx[1];
  float* xo = r.dx[2];
  float* xg = r.dx[3];
  float* carried = r.dc;
  const float m = r.going;
  const float next = r.next_going;
#pragma omp simd
  for (int64_t j = 0; j < r.units; ++j) {
    const float i = gi[j];
    const float f = gf[j];
    const float o = go[j];
    const float g = gg[j];
    const float dh = dy[j] + (next == 0.0F ? 0.0F : next * sums[j]);
    const float c = Tanh(cells[j]);
    const float dc = carried[j] + dh * o * (1.0F - c * c);
    xi[j] = dc * g * i * (1.0F - i);
    xf[j] = (m == 0.0F ? 0.0F : dc * m * before[j]) * f * (1.0F - f);
    xo[j] = dh * c * o * (1.0F - o);
    xg[j] = dc * i * (1.0F - g * g);
    carried[j] = m == 0.0F ? 0.0F : m * dc * f;
  }
}

void Forward(const LstmForwardRow& row) { ForwardLoop(row); }
void Backward(const LstmBackwardRow& row) { BackwardLoop(row); }

#if defined(__x86_64__)
MOKA_AVX2 void ForwardAvx2(const LstmForwardRow& row) { ForwardLoop(row); }
MOKA_AVX2 void BackwardAvx2(const LstmBackwardRow& row) { BackwardLoop(row); }
MOKA_AVX512 void ForwardAvx512(const LstmForwardRow& row) { ForwardLoop(row); }
MOKA_AVX512 void BackwardAvx512(const LstmBackwardRow& row) { BackwardLoop(row); }
#endif

}  // namespace

LstmRows BestLstmRows() {
#if defined(__x86_64__)
  if (HasAvx512()) return {ForwardAvx512, BackwardAvx512};
  if (HasAvx2()) return {ForwardAvx2, BackwardAvx2};
#endif
  return {Forward, Backward};
}

}  // namespace moka
