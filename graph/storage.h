// Where every value of a scheduled graph lies: the planner's second half. Aliases share memory, elementwise results may
// take over a dying input's, new state values are written over the state where the schedule allows it.
#pragma once

#include <vector>

#include "graph/memory/memory_plan.h"
#include "graph/schedule.h"

namespace moka {

enum class StoragePlace : uint8_t { kArena, kState, kInput, kConstant };

// One piece of memory that one or more values share.
struct Storage {
  StoragePlace place = StoragePlace::kArena;
  ValueId owner = kNoId;  // the state or input; for the others the first value put there
  int64_t bytes = 0;
  int first = 0;  // steps, for kArena
  int last = 0;
  int64_t offset = 0;  // in the arena or the constant buffer
};

struct StoragePlan {
  std::vector<Storage> storages;
  std::vector<int> storage_of;          // by ValueId; -1 for values that do not exist any more
  std::vector<int64_t> scratch_offset;  // in the arena, by index in schedule.steps (constants first, then steps)
  std::vector<bool> copied;             // by assignment: copied into the state after the last step
  int64_t arena_bytes = 0;
  int64_t bound_bytes = 0;
  int64_t constant_bytes = 0;
  std::vector<ValueId> largest;  // values alive at the peak, largest first (at most 5)
};

// scratch_bytes has one entry a step, constants first. Errors: size overflow.
StoragePlan PlanStorage(const Graph& graph, const NodeSchedule& schedule, std::span<const int64_t> scratch_bytes);

}  // namespace moka
