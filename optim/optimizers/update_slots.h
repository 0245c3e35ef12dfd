// The slots that updates keep beside the weights, and the norms that they share over ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "graph/graph.h"

namespace moka {

// A state an optimiser keeps beside a blob, named "blob/@slot".
struct SlotState {
  std::string name;
  std::string blob;
  Shape shape;
};
std::string SlotName(std::string_view blob, std::string_view slot);

inline constexpr std::string_view kEmaSlot = "ema";          // exponential mean of the weight
inline constexpr std::string_view kWaitingSlot = "waiting";  // and how old: sums that are not in the weights yet
inline constexpr std::string_view kSumSlot = "sum";          // gradients of the micro-batches so far

// Blobs of which each rank has some rows: their norms are over all ranks.
struct SplitNorms {
  std::vector<std::string> blobs = {};
  int64_t ranks = 1;
  ValueId fence = kNoId;  // there when all that is summed over ranks is on its way
  bool Has(std::string_view blob) const { return std::ranges::find(blobs, blob) != blobs.end(); }
  // The sum over all ranks of a scalar; `name` tells it from others.
  ValueId Sum(const GraphBuilder& b, ValueId scalar, const std::string& name) const;
};

// The parts that an update added to the graph.
struct Updates {
  std::vector<SlotState> slots;     // to be put in the store, zeroed; "@ema" starts as a copy of the weight
  std::vector<std::string> inputs;  // scalar inputs to set before each run to UpdateInput()
};

// The graph's scalar input of this name, which comes to be one of `updates` where there is none yet.
ValueId UpdateScalar(Graph& graph, std::string_view input, Updates& updates);

}  // namespace moka
