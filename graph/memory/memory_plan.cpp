// Dynamic storage allocation is NP-hard (Garey and Johnson, problem SR2), so several orders and sweeps are tried and
// the lowest peak is kept; none may take more than a bounded number of looks. The bytes alive at the fullest step are a
// lower bound, and reaching it ends the search.
#include "graph/memory/memory_plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/size.h"
#include "graph/memory/memory_place.h"

namespace moka {
namespace {

// Placing in an order takes quadratic time where many short lives leave gaps among long ones (an unrolled recurrence):
// it is tried for nets of up to so many values, and ends after so many looks, a few seconds at most. Sweeps alone plan
// what is larger.
constexpr size_t kMaxOrdered = size_t{1} << 16;
constexpr int64_t kMaxLooksBySize = int64_t{1} << 29;
constexpr int64_t kMaxLooksByLength = int64_t{1} << 24;
constexpr size_t kAlwaysOrdered = size_t{1} << 12;  // beyond, a plan within 1 % of the bound is good enough
// Parts of the run in each of which a sweep starts at the fullest step.
constexpr int kParts = 4;

// Bytes alive at each step.
std::vector<int64_t> AliveBytes(const PlanItems& plan) {
  std::vector<Size> change(static_cast<size_t>(plan.steps) + 1, 0);
  for (const PlanItem& item : plan.items) {
    change[static_cast<size_t>(item.first)] += item.bytes;
    change[static_cast<size_t>(item.last) + 1] += -item.bytes;
  }
  std::vector<int64_t> alive;
  alive.reserve(static_cast<size_t>(plan.steps));
  Size sum = 0;
  for (int step = 0; step < plan.steps; ++step) alive.push_back((sum += change[static_cast<size_t>(step)]).value());
  return alive;
}

// Keeps the lowest peak.
class Planner {
 public:
  explicit Planner(std::span<const PlanItem> items) : given_(items), items_(items), alive_(AliveBytes(items_)) {
    const auto peak = std::max_element(alive_.begin(), alive_.end());
    if (peak == alive_.end() || *peak == 0) return;
    plan_.peak_step = static_cast<int>(peak - alive_.begin());
    plan_.bound_bytes = *peak;
  }

  MemoryPlan Run() {
    plan_.peak_bytes = INT64_MAX;
    Sweep();
    if (!IsBest() && IsWorthOrders()) PlaceByOrders();
    return std::move(plan_);
  }

 private:
  bool IsBest() const { return plan_.peak_bytes == plan_.bound_bytes; }

  bool IsWorthOrders() const {
    const bool is_close = plan_.peak_bytes - plan_.bound_bytes <= plan_.bound_bytes / 100;
    return given_.size() <= (is_close ? kAlwaysOrdered : kMaxOrdered);
  }

  void Offer(std::optional<Placement> placement) {
    if (!placement || placement->peak_bytes >= plan_.peak_bytes) return;
    plan_.offsets = std::move(placement->offsets);
    plan_.peak_bytes = placement->peak_bytes;
  }

  void Sweep() {
    const OutwardSweeps sweeps(items_);
    const auto from = [&](int step, GapEnd side) {
      for (const SweepKey key : {SweepKey::kEarliest, SweepKey::kLatest, SweepKey::kLongest, SweepKey::kLargest}) {
        if (!IsBest()) Offer(sweeps.Place(step, key, side, plan_.peak_bytes));
      }
    };
    from(plan_.peak_step, GapEnd::kLow);
    from(plan_.peak_step, GapEnd::kHigh);
    for (int part = 0; part < kParts && items_.steps > 0; ++part) {
      const auto begin = alive_.begin() + int64_t{items_.steps} * part / kParts;
      const auto end = alive_.begin() + int64_t{items_.steps} * (part + 1) / kParts;
      if (begin != end) from(static_cast<int>(std::max_element(begin, end) - alive_.begin()), GapEnd::kHigh);
    }
    if (!IsBest()) Offer(sweeps.Place(0, SweepKey::kEarliest, GapEnd::kLow, plan_.peak_bytes));
  }

  void PlaceByOrders() {
    using Key = std::array<int64_t, 3>;
    PlaceBy([](const PlanItem& i) { return Key{-i.bytes, i.first, i.last}; }, kMaxLooksBySize);
    if (IsBest()) return;
    PlaceBy([](const PlanItem& i) { return Key{-int64_t{i.last - i.first}, -i.bytes, i.first}; }, kMaxLooksByLength);
  }

  template <class Key>
  void PlaceBy(const Key& key, int64_t looks) {
    std::vector<size_t> order(given_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(given_[a]) < key(given_[b]); });
    Offer(PlaceInOrder(items_, order, plan_.peak_bytes, looks));
  }

  std::span<const PlanItem> given_;
  PlanItems items_;
  std::vector<int64_t> alive_;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan PlanMemory(std::span<const PlanItem> items) { return Planner(items).Run(); }

}  // namespace moka
