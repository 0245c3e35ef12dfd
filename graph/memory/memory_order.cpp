// Placement of items one by one in a given order, each in the tightest gap that is free for its whole life. A segment
// tree over steps holds the occupied ranges, so that an item looks at O(log n) merged lists and not at all its
// contemporaries.
#include <algorithm>
#include <utility>

#include "core/size.h"
#include "graph/memory/memory_place.h"

namespace moka {
namespace {

using Range = std::pair<int64_t, int64_t>;  // begin, end
using Ranges = std::vector<Range>;          // sorted, apart from each other

void AddRange(Ranges& ranges, Range added) {
  const auto first = std::lower_bound(ranges.begin(), ranges.end(), added.first,
                                      [](const Range& range, int64_t begin) { return range.second < begin; });
  auto end = first;
  for (; end != ranges.end() && end->first <= added.second; ++end) {
    added.first = std::min(added.first, end->first);
    added.second = std::max(added.second, end->second);
  }
  if (first == end) {
    ranges.insert(first, added);
    return;
  }
  *first = added;
  ranges.erase(first + 1, end);
}

// a united with b, into `out`.
void Unite(const Ranges& a, const Ranges& b, Ranges& out) {
  out.clear();
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() || j != b.end()) {
    const bool takes_a = j == b.end() || (i != a.end() && i->first <= j->first);
    const Range& next = takes_a ? *i++ : *j++;
    if (!out.empty() && next.first <= out.back().second) {
      out.back().second = std::max(out.back().second, next.second);
    } else {
      out.push_back(next);
    }
  }
}

// The lowest offset of the tightest gap that holds the bytes; the end of all if there is none.
int64_t BestFit(const Ranges& occupied, int64_t bytes) {
  int64_t best = -1;
  int64_t best_gap = INT64_MAX;
  int64_t end = 0;
  for (const auto& [begin, finish] : occupied) {
    const int64_t gap = begin - end;
    if (gap >= bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = finish;
  }
  return best >= 0 ? best : end;
}

// The memory that is occupied at each step: a segment tree over steps. A node knows the bytes taken during all of its
// steps by items that do not cover all of its parent's (`throughout`), and those taken at any of its steps by items
// within it (`sometime`).
class Timetable {
 public:
  explicit Timetable(int steps) : steps_(steps), nodes_(4 * static_cast<size_t>(steps)) {}

  void Add(const PlanItem& item, Range range) { Add(1, 0, steps_ - 1, item, range); }

  // Returns the ranges that are occupied at some step of the item's life.
  const Ranges& Occupied(const PlanItem& item, int64_t& looks) {
    found_.clear();
    Collect(1, 0, steps_ - 1, item, looks);
    return found_;
  }

 private:
  struct Node {
    Ranges throughout;
    Ranges sometime;
  };

  void Add(size_t node, int first, int last, const PlanItem& item, Range range) {
    AddRange(nodes_[node].sometime, range);
    if (item.first <= first && last <= item.last) {
      AddRange(nodes_[node].throughout, range);
      return;
    }
    const int middle = first + (last - first) / 2;
    if (item.first <= middle) Add(2 * node, first, middle, item, range);
    if (item.last > middle) Add(2 * node + 1, middle + 1, last, item, range);
  }

  void Collect(size_t node, int first, int last, const PlanItem& item, int64_t& looks) {
    const bool is_within = item.first <= first && last <= item.last;
    const Ranges& ranges = is_within ? nodes_[node].sometime : nodes_[node].throughout;
    if (!ranges.empty()) {
      looks -= static_cast<int64_t>(ranges.size() + found_.size());
      Unite(found_, ranges, united_);
      found_.swap(united_);
    }
    if (is_within) return;
    const int middle = first + (last - first) / 2;
    if (item.first <= middle) Collect(2 * node, first, middle, item, looks);
    if (item.last > middle) Collect(2 * node + 1, middle + 1, last, item, looks);
  }

  int steps_;
  std::vector<Node> nodes_;
  Ranges found_;
  Ranges united_;
};

}  // namespace

std::optional<Placement> PlaceInOrder(const PlanItems& plan, const std::vector<size_t>& order, int64_t limit,
                                      int64_t& looks) {
  Placement placement{.offsets = std::vector<int64_t>(plan.items.size(), 0)};
  Timetable timetable(plan.steps);
  for (const size_t i : order) {
    const PlanItem& item = plan.items[i];
    if (item.bytes == 0) continue;
    const int64_t begin = BestFit(timetable.Occupied(item, looks), item.bytes);
    const int64_t end = (Size(begin) + item.bytes).value();
    placement.offsets[i] = begin;
    placement.peak_bytes = std::max(placement.peak_bytes, end);
    if (placement.peak_bytes >= limit || looks < 0) return std::nullopt;
    timetable.Add(item, {begin, end});
  }
  return placement;
}

}  // namespace moka
