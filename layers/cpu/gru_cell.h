// The elementwise part of a gated recurrent unit's step for one row, as vector loops (the formulas stand in
// layers/ops/recurrent/gru.cpp). Operands of one call do not overlap, unless said. Gates in the order r, z, n.
#pragma once

#include <cstdint>

namespace moka {

struct GruForwardRow {
  int64_t units = 0;
  const float* sums[3] = {};  // m h' w^T of each gate
  const float* x[3] = {};
  const float* bias = nullptr;  // of n's sum, inside the reset gate's product
  const float* before = nullptr;
  float going = 0;
  float next_going = 0;
  float* gates[3] = {};  // may be x
  float* inner = nullptr;
  float* h = nullptr;
  float* kept = nullptr;  // h as it enters the next step
};

struct GruBackwardRow {
  int64_t units = 0;
  const float* sums = nullptr;  // dgates of the next step, as the state saw them, times w
  const float* dy = nullptr;
  const float* gates[3] = {};
  const float* inner = nullptr;
  const float* before = nullptr;
  float going = 0;
  float next_going = 0;      // of sums and carried
  float* carried = nullptr;  // what z passes on of dh: the next step's; becomes this one's
  float* dx[3] = {};         // may be gates
  float* dsums[3] = {};
};

// For the instructions this processor has.
struct GruRows {
  void (*forward)(const GruForwardRow&) = nullptr;
  void (*backward)(const GruBackwardRow&) = nullptr;
};
GruRows BestGruRows();

}  // namespace moka
