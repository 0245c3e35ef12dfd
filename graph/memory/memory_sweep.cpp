// Placement in the order of time, forwards and backwards from a step, with a heap of gaps like an allocator's: best fit
// by size, gaps merged by place. O(n log n), for nets of any length.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/size.h"
#include "graph/memory/memory_place.h"

namespace moka {
namespace {

// Free bytes below the top: gaps between what is occupied, by place and by size.
class Heap {
 public:
  explicit Heap(int64_t top) : top_(top) {}

  // The tightest gap, the lowest among equals; beyond the top if none is large enough.
  int64_t Take(int64_t bytes, GapEnd side) {
    const auto found = by_size_.lower_bound({bytes, 0});
    if (found == by_size_.end()) {
      const int64_t offset = top_;
      top_ = (Size(top_) + bytes).value();
      return offset;
    }
    const auto [size, begin] = *found;
    RemoveGap(gaps_.find(begin));
    const int64_t offset = side == GapEnd::kLow ? begin : begin + size - bytes;
    if (offset > begin) AddGap(begin, offset);
    if (offset + bytes < begin + size) AddGap(offset + bytes, begin + size);
    return offset;
  }

  void Free(int64_t begin, int64_t bytes) {
    int64_t end = begin + bytes;
    const auto after = gaps_.find(end);
    if (after != gaps_.end()) {
      end = after->second;
      RemoveGap(after);
    }
    const auto next = gaps_.lower_bound(begin);
    if (next != gaps_.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      RemoveGap(std::prev(next));
    }
    if (end == top_) {
      top_ = begin;
    } else {
      AddGap(begin, end);
    }
  }

 private:
  using Gaps = std::map<int64_t, int64_t>;  // begin, end

  void AddGap(int64_t begin, int64_t end) {
    gaps_.emplace(begin, end);
    by_size_.emplace(end - begin, begin);
  }
  void RemoveGap(Gaps::iterator gap) {
    by_size_.erase({gap->second - gap->first, gap->first});
    gaps_.erase(gap);
  }

  Gaps gaps_;
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size, begin
  int64_t top_;
};

template <class Key>
std::vector<size_t> SortedBy(const std::vector<PlanItem>& items, const Key& key) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return items[i].bytes == 0; });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(items[a]) < key(items[b]); });
  return order;
}

int64_t Length(const PlanItem& item) { return int64_t{item.last} - item.first; }

}  // namespace

PlanItems::PlanItems(std::span<const PlanItem> given) : items(given.begin(), given.end()) {
  for (PlanItem& item : items) {
    item.bytes = RoundUp(item.bytes, kArenaAlignment).value();
    steps = std::max(steps, item.last + 1);
  }
}

OutwardSweeps::OutwardSweeps(const PlanItems& plan) : plan_(plan) {
  using Key = std::array<int64_t, 3>;
  forward_.coming = SortedBy(plan.items, [](const PlanItem& i) { return Key{i.first, -Length(i), -i.bytes}; });
  forward_.going = SortedBy(plan.items, [](const PlanItem& i) { return i.last; });
  backward_.coming = SortedBy(plan.items, [](const PlanItem& i) {
    return Key{-int64_t{i.last}, -Length(i), -i.bytes};
  });
  backward_.going = SortedBy(plan.items, [](const PlanItem& i) { return -i.first; });
}

std::vector<size_t> OutwardSweeps::AliveAt(int start, SweepKey key) const {
  std::vector<size_t> alive;
  for (const size_t i : forward_.coming) {
    if (plan_.items[i].first <= start && start <= plan_.items[i].last) alive.push_back(i);
  }
  const auto rank = [&](size_t index) -> std::array<int64_t, 3> {
    const PlanItem& i = plan_.items[index];
    switch (key) {
      case SweepKey::kEarliest: return {i.first, -int64_t{i.last}, -i.bytes};
      case SweepKey::kLatest: return {-int64_t{i.last}, i.first, -i.bytes};
      case SweepKey::kLongest: return {-Length(i), i.first, -i.bytes};
      case SweepKey::kLargest: break;
    }
    return {-i.bytes, i.first, i.last};
  };
  std::stable_sort(alive.begin(), alive.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return alive;
}

std::optional<Placement> OutwardSweeps::Place(int start, SweepKey key, GapEnd side, int64_t limit) const {
  const std::vector<PlanItem>& items = plan_.items;
  Placement placement{.offsets = std::vector<int64_t>(items.size(), 0)};
  Size bottom = 0;
  for (const size_t i : AliveAt(start, key)) {
    placement.offsets[i] = bottom.value();
    bottom += items[i].bytes;
  }
  placement.peak_bytes = bottom.value();
  for (const bool is_forward : {true, false}) {
    const Direction& direction = is_forward ? forward_ : backward_;
    Heap heap(bottom.value());
    auto gone = direction.going.begin();
    for (const size_t i : direction.coming) {
      const int now = is_forward ? items[i].first : items[i].last;
      if (is_forward ? now <= start : now >= start) continue;  // there at the start, or the other direction's
      for (; gone != direction.going.end(); ++gone) {
        const PlanItem& item = items[*gone];
        if (is_forward ? item.last >= now : item.first <= now) break;
        if (is_forward ? item.last < start : item.first > start) continue;  // the other direction's
        heap.Free(placement.offsets[*gone], item.bytes);
      }
      placement.offsets[i] = heap.Take(items[i].bytes, side);
      placement.peak_bytes = std::max(placement.peak_bytes, (Size(placement.offsets[i]) + items[i].bytes).value());
      if (placement.peak_bytes >= limit) return std::nullopt;
    }
  }
  return placement;
}

}  // namespace moka
