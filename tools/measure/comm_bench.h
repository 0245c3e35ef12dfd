// Times all-reduces between the ranks of a world, as nccl-tests' users know it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/exchange/cost_curve.h"
#include "comm/schedule/wire.h"
#include "comm/transport/communicator.h"

namespace moka {

struct CommBenchOptions {
  int64_t from_bytes = 8;
  int64_t to_bytes = int64_t{32} << 20U;
  double step_factor = 2;
  int iterations = 20;
  int warmup = 5;
  bool checks = true;
  Wire wire = Wire::kFloat32;
};

struct CommBenchRow {
  int64_t bytes = 0;      // of float32 in memory
  double us = 0;          // the median over iterations of the slowest rank's time
  double algbw_gb_s = 0;  // bytes / time, in 10^9 bytes
  double busbw_gb_s = 0;  // that times 2 (P-1) / P: what a link carries, whatever the number of ranks
  int64_t wrong = 0;      // elements that are not the sum, all ranks together; -1: not checked
};

struct CommBenchTable {
  std::string algorithm;
  std::vector<CommBenchRow> rows;
  CostLine line;
};

// All ranks of the world; all get the same table. Errors: kPeer.
CommBenchTable BenchAllReduce(Communicator& world, const AllReduceChoice& choice, const CommBenchOptions& options);

}  // namespace moka
