// The pass that inserts collectives: tensors of a training step are summed over the ranks.
#pragma once

#include <cstdint>
#include <string>
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

// For each value what its owner makes of it: those of this rank are new, of the others' only the type counts. `layers`
// names them; the keys are `first_key` and on. All are on their way, in their order, before the first is waited for.
std::vector<ValueId> ShareOwned(Graph& graph, const std::vector<ValueId>& values,
                                const std::vector<std::string>& layers, int64_t first_key);

}  // namespace moka
