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

// A state that one of the ranks updates for all.
struct OwnedWeight {
  ValueId state = kNoId;
  ValueId sum = kNoId;      // of its gradient, which must have gone to the owner before the weight comes from there
  ValueId updated = kNoId;  // what the state becomes; kNoId: another rank's
  std::string layer = {};
  int64_t key = 0;
};

// Each weight goes from its owner to all ranks, behind its update and behind `fence`, and is waited for by the next
// run, in front of the node that reads it first (graph/passes/await_gathers.cpp). They begin in the order of these
// nodes. Returns for each the value to be assigned to its state, which lies there.
std::vector<ValueId> GatherOwned(Graph& graph, const std::vector<OwnedWeight>& weights, ValueId fence);

}  // namespace moka
