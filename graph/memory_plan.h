// Offsets for values in one arena from their lifetimes over a fixed order of steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moka {

// Bytes needed from step `first` to step `last`, both included.
struct PlanItem {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // one an item, multiples of kArenaAlignment
  int64_t peak_bytes = 0;
  int64_t bound_bytes = 0;  // no plan can need less: the largest sum of bytes alive at one step
  int peak_step = 0;        // where that sum is reached
};

inline constexpr int64_t kArenaAlignment = 64;

// Tries sweeps over time and orders of placement (graph/memory_place.h) and keeps the lowest peak. Items whose
// lifetimes overlap never overlap in memory. Errors: size overflow.
MemoryPlan PlanMemory(std::span<const PlanItem> items);

}  // namespace moka
