// The items of the memory planner: how many bytes are needed when.
#pragma once

#include <cstdint>

namespace moka {

// Bytes needed from step `first` to step `last`, both included.
struct PlanItem {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

inline constexpr int64_t kArenaAlignment = 64;

}  // namespace moka
