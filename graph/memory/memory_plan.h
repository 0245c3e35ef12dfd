// Offsets for values in one arena from their lifetimes over a fixed order of steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/memory/plan_item.h"

namespace moka {

struct MemoryPlan {
  std::vector<int64_t> offsets;  // one an item, multiples of kArenaAlignment
  int64_t peak_bytes = 0;
  int64_t bound_bytes = 0;  // no plan can need less: the largest sum of bytes alive at one step
  int peak_step = 0;        // where that sum is reached
};

// Tries sweeps over time and orders of placement (graph/memory/memory_place.h) and keeps the lowest peak. Items whose
// lifetimes overlap never overlap in memory. Errors: size overflow.
MemoryPlan PlanMemory(std::span<const PlanItem> items);

}  // namespace moka
