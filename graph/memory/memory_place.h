// Two ways to give items their offsets, which PlanMemory tries under several orders. Both leave out items of no bytes
// (offset 0) and give up once the peak reaches `limit`, since a lower one is known then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/memory/plan_item.h"

namespace moka {

struct Placement {
  std::vector<int64_t> offsets;  // one an item
  int64_t peak_bytes = 0;
};

// Items as the planner sees them: bytes rounded up to kArenaAlignment, steps counted.
struct PlanItems {
  explicit PlanItems(std::span<const PlanItem> given);

  std::vector<PlanItem> items;
  int steps = 0;  // one past the last
};

// In the order given, each item at the lowest offset of the tightest gap between the items placed before that it meets
// in time. What is occupied is kept, merged, in a tree over time; `looks` falls by each range looked at, and nothing is
// returned once it is below zero (items that leave many gaps take quadratic time).
std::optional<Placement> PlaceInOrder(const PlanItems& plan, const std::vector<size_t>& order, int64_t limit,
                                      int64_t& looks);

// Says which of the items alive at the start of a sweep lie lowest.
enum class SweepKey : uint8_t { kEarliest, kLatest, kLongest, kLargest };
// Says which end of the tightest gap an item takes.
enum class GapEnd : uint8_t { kLow, kHigh };

// From one step outwards: the items alive at that step lie without a gap; then time runs on to the end, and back to the
// beginning, as an allocator sees it: items that come into being take the tightest gap, items that die leave one. Each
// direction meets only what it has placed and what dies, so it takes O(n log n). From the step of the peak on there is
// ever more room, and the lower bound is often reached.
class OutwardSweeps {
 public:
  explicit OutwardSweeps(const PlanItems& plan);
  std::optional<Placement> Place(int start, SweepKey key, GapEnd end, int64_t limit) const;

 private:
  struct Direction {
    std::vector<size_t> coming;  // in the order in which items come into being
    std::vector<size_t> going;   // in the order in which they die
  };
  std::vector<size_t> AliveAt(int start, SweepKey key) const;

  const PlanItems& plan_;
  Direction forward_;
  Direction backward_;
};

}  // namespace moka
