// The elementwise part of a gated recurrent unit's step as vector loops: of a tile of rows forward, of one row backward
// (the formulas stand in layers/ops/recurrent/gru.cpp). Operands of one call do not overlap, unless said. Gates in the
// order r, z, n.
#pragma once

#include <cstdint>

namespace moka {

struct GruForwardTile {
  int64_t rows = 0;
  int64_t units = 0;
  int64_t width = 0;    // from row to row of sums and kept; all of it is read
  float* sums[3] = {};  // m h' w^T of each gate; become the gates
  const float* x[3] = {};
  float* gates[3] = {};         // as x lies, may be x; null where nobody reads them
  int64_t x_stride = 0;         // from row to row
  const float* bias = nullptr;  // of n's sum, inside the reset gate's product
  int64_t state_stride = 0;
  const float* before = nullptr;
  const float* going = nullptr;       // one a row
  const float* next_going = nullptr;  // one a row; null where no step follows
  float* inner = nullptr;             // null as gates
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
  void (*forward)(const GruForwardTile&) = nullptr;
  void (*backward)(const GruBackwardRow&) = nullptr;
};
GruRows BestGruRows();

}  // namespace moka
