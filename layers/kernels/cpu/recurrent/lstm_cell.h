// The elementwise part of a long short-term memory's step as vector loops: of a tile of rows forward, of one row
// backward (the formulas stand in layers/ops/recurrent/lstm.cpp). Operands of one call do not overlap, unless said.
#pragma once

#include <cstdint>

namespace moka {

struct LstmForwardTile {
  int64_t rows = 0;
  int64_t units = 0;
  int64_t width = 0;    // from row to row of sums and kept; all of it is read
  float* sums[4] = {};  // m h' w^T of each gate; become the gates
  const float* x[4] = {};
  float* gates[4] = {};  // as x lies, may be x; null where nobody reads them
  int64_t x_stride = 0;  // from row to row
  int64_t state_stride = 0;
  const float* c_before = nullptr;
  const float* going = nullptr;       // one a row
  const float* next_going = nullptr;  // one a row; null where no step follows
  float forget_bias = 0;
  float* c = nullptr;  // may be c_before
  float* h = nullptr;
  float* kept = nullptr;  // h as it enters the next step
};

struct LstmBackwardRow {
  int64_t units = 0;
  const float* sums = nullptr;  // dgates of the next step times w
  const float* dy = nullptr;
  const float* gates[4] = {};
  const float* c = nullptr;
  const float* c_before = nullptr;
  float going = 0;
  float next_going = 0;  // of sums
  float* dx[4] = {};     // may be gates
  float* dc = nullptr;   // of this step's cells; becomes that of the cells before
};

// For the instructions this processor has.
struct LstmRows {
  void (*forward)(const LstmForwardTile&) = nullptr;
  void (*backward)(const LstmBackwardRow&) = nullptr;
};
LstmRows BestLstmRows();

}  // namespace moka
