// The pass that inserts collectives: tensors of a training step are summed over the ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace moka {

// For each value (float32; kNoId stays) its sum over all ranks, and the key by which the exchange knows it (-1 for
// kNoId). All of them are on their way, in the order in which the step computes them, before the first sum is waited
// for: each begins right behind the node that makes its value, so communication goes on beside what is still computed.
// The first `last` values, small ones, follow the others whenever they are made. Once a graph. Ensures: with one rank
// the sums are the values.
struct SumsOverRanks {
  std::vector<ValueId> sums;
  std::vector<int64_t> keys;
  ValueId fence = kNoId;  // there when all values are on their way
};
SumsOverRanks SumOverRanks(Graph& graph, const std::vector<ValueId>& values, size_t last = 0);

// For each value what its owner makes of it: those of this rank are new, of the others' only the type counts. `layers`
// names them; the keys are `first_key` and on. All are on their way, in their order and behind `fence`, before the
// first is waited for.
std::vector<ValueId> ShareOwned(Graph& graph, const std::vector<ValueId>& values,
                                const std::vector<std::string>& layers, int64_t first_key, ValueId fence);

}  // namespace moka
