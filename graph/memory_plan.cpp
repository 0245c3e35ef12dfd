#include "graph/memory_plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/size.h"

namespace moka {
namespace {

bool Overlap(const PlanItem& a, const PlanItem& b) { return a.first <= b.last && b.first <= a.last; }

int64_t Rounded(const PlanItem& item) { return RoundUp(item.bytes, kArenaAlignment).value(); }

void FindBound(std::span<const PlanItem> items, MemoryPlan& plan) {
  int steps = 0;
  for (const PlanItem& item : items) steps = std::max(steps, item.last + 1);
  std::vector<Size> change(static_cast<size_t>(steps) + 1, 0);
  for (const PlanItem& item : items) {
    change[static_cast<size_t>(item.first)] += Rounded(item);
    change[static_cast<size_t>(item.last) + 1] += -Rounded(item);
  }
  Size alive = 0;
  for (int step = 0; step < steps; ++step) {
    alive += change[static_cast<size_t>(step)];
    if (alive.value() <= plan.bound_bytes) continue;
    plan.bound_bytes = alive.value();
    plan.peak_step = step;
  }
}

// The lowest offset of the tightest gap between placed neighbours (sorted by offset).
int64_t BestFit(const std::vector<std::pair<int64_t, int64_t>>& neighbours, int64_t bytes) {
  int64_t best = -1;
  int64_t best_gap = INT64_MAX;
  int64_t end = 0;
  for (const auto& [begin, finish] : neighbours) {
    const int64_t gap = begin - end;
    if (gap >= bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, finish);
  }
  return best >= 0 ? best : end;
}

// Places items in the order given.
std::vector<int64_t> Place(std::span<const PlanItem> items, const std::vector<size_t>& order, int64_t& peak) {
  std::vector<int64_t> offsets(items.size(), 0);
  std::vector<size_t> placed;
  std::vector<std::pair<int64_t, int64_t>> neighbours;
  peak = 0;
  for (const size_t i : order) {
    neighbours.clear();
    for (const size_t j : placed) {
      if (Overlap(items[i], items[j])) neighbours.emplace_back(offsets[j], offsets[j] + Rounded(items[j]));
    }
    std::sort(neighbours.begin(), neighbours.end());
    offsets[i] = BestFit(neighbours, Rounded(items[i]));
    peak = std::max(peak, (Size(offsets[i]) + Rounded(items[i])).value());
    placed.push_back(i);
  }
  return offsets;
}

}  // namespace

MemoryPlan PlanMemory(std::span<const PlanItem> items) {
  MemoryPlan plan;
  FindBound(items, plan);
  using Key = std::array<int64_t, 3>;
  const std::array<Key (*)(const PlanItem&), 3> orders = {
      [](const PlanItem& i) {
        return Key{-i.bytes, i.first, i.last};
      },
      [](const PlanItem& i) {
        return Key{-int64_t{i.last - i.first}, -i.bytes, i.first};
      },
      [](const PlanItem& i) {
        return Key{i.first, -int64_t{i.last - i.first}, -i.bytes};
      },
  };
  plan.peak_bytes = INT64_MAX;
  for (const auto& key : orders) {
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(items[a]) < key(items[b]); });
    int64_t peak = 0;
    std::vector<int64_t> offsets = Place(items, order, peak);
    if (peak >= plan.peak_bytes) continue;
    plan.peak_bytes = peak;
    plan.offsets = std::move(offsets);
    if (plan.peak_bytes == plan.bound_bytes) break;
  }
  return plan;
}

}  // namespace moka
