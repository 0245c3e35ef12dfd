// The pass that inserts collectives: tensors of a training step are summed over the ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace moka {

// For each value (float32; kNoId stays) its sum over all ranks, and the key by which the exchange knows it (-1 for
// kNoId). All of them are on their way, in the order in which the step computes them, before the first sum is waited
// for: communication goes on beside what is still computed. Once a graph. Ensures: with one rank the sums are the
// values.
struct SumsOverRanks {
  std::vector<ValueId> sums;
  std::vector<int64_t> keys;
};
SumsOverRanks SumOverRanks(Graph& graph, const std::vector<ValueId>& values);

}  // namespace moka
