// The elementwise part of a long short-term memory's step for one row, as vector loops (the formulas stand in
// layers/ops/recurrent/lstm.cpp). Operands of one call do not overlap, unless said.
#pragma once

#include <cstdint>

namespace moka {

struct LstmForwardRow {
  int64_t units = 0;
  const float* sums[4] = {};  // m h' w^T of each gate
  const float* x[4] = {};
  float* gates[4] = {};  // may be x
  const float* c_before = nullptr;
  float going = 0;
  float next_going = 0;
  float forget_bias = 0;
  float* c = nullptr;
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
  void (*forward)(const LstmForwardRow&) = nullptr;
  void (*backward)(const LstmBackwardRow&) = nullptr;
};
LstmRows BestLstmRows();

}  // namespace moka
