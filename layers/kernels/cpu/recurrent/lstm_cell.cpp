// Built as tile_ops.cpp is: its functions become loops of every instruction set, with the same bits in each.
#include "layers/kernels/cpu/recurrent/lstm_cell.h"

#include "layers/kernels/cpu/instructions.h"
#include "layers/kernels/cpu/tiles/gate_loops.h"
#include "layers/kernels/cpu/tiles/tile_math.h"
#include "layers/kernels/cpu/vector_targets.h"

namespace moka {
namespace {

using tile::Sigmoid;
using tile::Tanh;

// A gate's sums with what the step's input and a bias add.
MOKA_INLINE void AddInput(const LstmForwardTile& t, int gate, float bias) {
  for (int64_t row = 0; row < t.rows; ++row) {
    float* sums = t.sums[gate] + row * t.width;
    const float* x = t.x[gate] + row * t.x_stride;
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) sums[j] = sums[j] + x[j] + bias;
  }
}

// The cells, also where h will be.
MOKA_INLINE void Cells(const LstmForwardTile& t) {
  for (int64_t row = 0; row < t.rows; ++row) {
    const int64_t at = row * t.width;
    const float* i = t.sums[0] + at;
    const float* f = t.sums[1] + at;
    const float* g = t.sums[3] + at;
    const float* before = t.c_before + row * t.state_stride;
    float* cells = t.c + row * t.state_stride;
    float* kept = t.kept + at;
    const float m = t.going[row];
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) {
      const float from = m == 0.0F ? 0.0F : m * f[j] * before[j];
      const float c = i[j] * g[j] + from;
      cells[j] = c;
      kept[j] = c;
    }
  }
}

// h from the cells' tanh in `kept`.
MOKA_INLINE void States(const LstmForwardTile& t) {
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* o = t.sums[2] + row * t.width;
    float* h = t.h + row * t.state_stride;
    float* kept = t.kept + row * t.width;
    const float next = t.next_going == nullptr ? 0.0F : t.next_going[row];
#pragma omp simd
    for (int64_t j = 0; j < t.units; ++j) {
      const float y = o[j] * kept[j];
      h[j] = y;
      kept[j] = next == 0.0F ? 0.0F : next * y;
    }
  }
}

// Each function in a loop of its own over all rows: one element's sigmoids and tanhs wait for each other, and a
// processor looks not far enough ahead to fill that time with the next element's.
MOKA_INLINE void ForwardLoops(const LstmForwardTile& t) {
  const int64_t n = t.rows * t.width;
  for (int gate = 0; gate < 4; ++gate) AddInput(t, gate, gate == 1 ? t.forget_bias : 0.0F);
  for (int gate = 0; gate < 3; ++gate) Sigmoids(t.sums[gate], n);
  Tanhs(t.sums[3], n);
  Cells(t);
  Tanhs(t.kept, n);
  States(t);
  for (int gate = 0; gate < 4 && t.gates[0] != nullptr; ++gate) SaveGate(t, gate);
}

// The derivatives by the gates' own values: s (1 - s) for a sigmoid s, 1 - g^2 for a tanh g, so that no sum before the
// gates needs to be kept. tanh of the cell is computed again rather than kept.
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

void Forward(const LstmForwardTile& tile) { ForwardLoops(tile); }
void Backward(const LstmBackwardRow& row) { BackwardLoop(row); }

#if defined(__x86_64__)
MOKA_AVX2 void ForwardAvx2(const LstmForwardTile& tile) { ForwardLoops(tile); }
MOKA_AVX2 void BackwardAvx2(const LstmBackwardRow& row) { BackwardLoop(row); }
MOKA_AVX512 void ForwardAvx512(const LstmForwardTile& tile) { ForwardLoops(tile); }
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
