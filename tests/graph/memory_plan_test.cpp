// Plans of random lives never overlap, and the tree of occupied ranges places as a plain search does.
#include "graph/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/rng.h"
#include "graph/memory/memory_place.h"

namespace moka {
namespace {

// Lives that overlap in time never share a byte, and the peak covers every item.
void ExpectSound(const std::vector<PlanItem>& items, const MemoryPlan& plan) {
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kArenaAlignment, 0);
    EXPECT_LE(plan.offsets[i] + items[i].bytes, plan.peak_bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool in_time = items[i].first <= items[j].last && items[j].first <= items[i].last;
      const bool in_space =
          plan.offsets[i] < plan.offsets[j] + items[j].bytes && plan.offsets[j] < plan.offsets[i] + items[i].bytes;
      EXPECT_FALSE(in_time && in_space && items[i].bytes > 0 && items[j].bytes > 0) << i << " and " << j;
    }
  }
}

std::vector<PlanItem> RandomLives(uint64_t seed, uint64_t count, uint64_t steps, uint64_t longest) {
  RandomStream random(seed, 1);
  std::vector<PlanItem> items;
  for (uint64_t i = 0; i < count; ++i) {
    const int first = static_cast<int>(random.Below(steps));
    items.push_back({static_cast<int64_t>(random.Below(1 << 12)) * static_cast<int64_t>(random.Below(4)), first,
                     first + static_cast<int>(random.Below(longest))});
  }
  return items;
}

// In the order given, each at the lowest offset of the tightest gap, by looking at all that are placed.
std::vector<int64_t> PlaceByLooking(const std::vector<PlanItem>& items, const std::vector<size_t>& order,
                                    int64_t& peak) {
  std::vector<int64_t> offsets(items.size(), 0);
  std::vector<size_t> placed;
  peak = 0;
  for (const size_t i : order) {
    if (items[i].bytes == 0) continue;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const size_t j : placed) {
      const bool meet = items[i].first <= items[j].last && items[j].first <= items[i].last;
      if (meet) taken.emplace_back(offsets[j], offsets[j] + items[j].bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t best = -1;
    int64_t best_gap = INT64_MAX;
    int64_t end = 0;
    for (const auto& [begin, finish] : taken) {
      if (begin - end >= items[i].bytes && begin - end < best_gap) {
        best = end;
        best_gap = begin - end;
      }
      end = std::max(end, finish);
    }
    offsets[i] = best >= 0 ? best : end;
    peak = std::max(peak, offsets[i] + items[i].bytes);
    placed.push_back(i);
  }
  return offsets;
}

std::vector<size_t> OrderBy(const std::vector<PlanItem>& items, std::array<int64_t, 3> (*key)(const PlanItem&)) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(items[a]) < key(items[b]); });
  return order;
}
std::array<int64_t, 3> Largest(const PlanItem& i) { return {-i.bytes, i.first, i.last}; }
std::array<int64_t, 3> Longest(const PlanItem& i) { return {-int64_t{i.last - i.first}, -i.bytes, i.first}; }
std::array<int64_t, 3> Earliest(const PlanItem& i) { return {i.first, -int64_t{i.last - i.first}, -i.bytes}; }

TEST(MemoryPlanTest, AChainReusesTwoBuffers) {
  const std::vector<PlanItem> items = {{1024, 0, 1}, {1024, 1, 2}, {1024, 2, 3}, {1024, 3, 4}};
  const MemoryPlan plan = PlanMemory(items);
  ExpectSound(items, plan);
  EXPECT_EQ(plan.bound_bytes, 2048);
  EXPECT_EQ(plan.peak_bytes, 2048);
}

TEST(MemoryPlanTest, TheBoundIsTheLargestSumAlive) {
  const std::vector<PlanItem> items = {{100, 0, 5}, {300, 1, 1}, {64, 1, 3}, {10, 5, 5}};
  const MemoryPlan plan = PlanMemory(items);
  ExpectSound(items, plan);
  EXPECT_EQ(plan.bound_bytes, 128 + 320 + 64);
  EXPECT_EQ(plan.peak_step, 1);
}

TEST(MemoryPlanTest, NothingNeedsNothing) {
  const MemoryPlan plan = PlanMemory({});
  EXPECT_EQ(plan.bound_bytes, 0);
  EXPECT_TRUE(plan.offsets.empty());
}

TEST(MemoryPlanTest, RandomLivesStaySoundAndNearTheBound) {
  double worst = 1;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed, 1);
    std::vector<PlanItem> items;
    const uint64_t count = 1 + random.Below(80);
    for (uint64_t i = 0; i < count; ++i) {
      const int first = static_cast<int>(random.Below(60));
      items.push_back({static_cast<int64_t>(random.Below(1 << 20)), first, first + static_cast<int>(random.Below(10))});
    }
    const MemoryPlan plan = PlanMemory(items);
    ExpectSound(items, plan);
    EXPECT_GE(plan.peak_bytes, plan.bound_bytes);
    if (plan.bound_bytes > 0)
      worst = std::max(worst, static_cast<double>(plan.peak_bytes) / static_cast<double>(plan.bound_bytes));
  }
  EXPECT_LT(worst, 1.5);
}

// The tree over time finds what looking at all items finds, to the byte.
TEST(MemoryPlanTest, PlacingInAnOrderFindsTheTightestGap) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const PlanItems plan(RandomLives(seed, 200, 60, 1 + seed));
    for (const auto& key : {Largest, Longest, Earliest}) {
      const std::vector<size_t> order = OrderBy(plan.items, key);
      int64_t peak = 0;
      const std::vector<int64_t> expected = PlaceByLooking(plan.items, order, peak);
      int64_t looks = INT64_MAX;
      const std::optional<Placement> placed = PlaceInOrder(plan, order, INT64_MAX, looks);
      ASSERT_TRUE(placed.has_value());
      EXPECT_EQ(placed->offsets, expected);
      EXPECT_EQ(placed->peak_bytes, peak);
      EXPECT_FALSE(PlaceInOrder(plan, order, peak, looks).has_value()) << "a peak that is no lower is given up";
      looks = 10;
      EXPECT_FALSE(PlaceInOrder(plan, order, INT64_MAX, looks).has_value()) << "so is one that takes too long";
    }
  }
}

TEST(MemoryPlanTest, NoSinglePlacementIsBetterThanThePlan) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::vector<PlanItem> items = RandomLives(seed, 300, 100, 2 + seed);
    const MemoryPlan plan = PlanMemory(items);
    ExpectSound(items, plan);
    const PlanItems rounded(items);
    for (const auto& key : {Largest, Longest, Earliest}) {
      int64_t peak = 0;
      PlaceByLooking(rounded.items, OrderBy(items, key), peak);
      EXPECT_LE(plan.peak_bytes, peak);
    }
  }
}

TEST(MemoryPlanTest, EverySweepIsSound) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<PlanItem> items = RandomLives(seed, 150, 50, 1 + seed);
    const PlanItems rounded(items);
    const OutwardSweeps sweeps(rounded);
    for (int start = 0; start < rounded.steps; start += 7) {
      for (const SweepKey key : {SweepKey::kEarliest, SweepKey::kLatest, SweepKey::kLongest, SweepKey::kLargest}) {
        for (const GapEnd end : {GapEnd::kLow, GapEnd::kHigh}) {
          const std::optional<Placement> placed = sweeps.Place(start, key, end, INT64_MAX);
          ASSERT_TRUE(placed.has_value());
          ExpectSound(items, {.offsets = placed->offsets, .peak_bytes = placed->peak_bytes});
        }
      }
    }
  }
}

// A training step: what goes forward is kept until it comes back, with short lives between. From the first step on an
// allocator does it too; what is large and short in the middle is in its way.
TEST(MemoryPlanTest, KeptActivationsReachTheBound) {
  constexpr int kLayers = 5000;
  std::vector<PlanItem> items;
  for (int i = 0; i < kLayers; ++i) {
    items.push_back({1024, i, 2 * kLayers - i});
    items.push_back({256 + 64 * (i % 3), i, i + 1});
    items.push_back({512, 2 * kLayers - i, 2 * kLayers - i + 1});
  }
  items.push_back({1 << 20, kLayers, kLayers});
  const MemoryPlan plan = PlanMemory(items);
  EXPECT_EQ(plan.peak_bytes, plan.bound_bytes);
}

}  // namespace
}  // namespace moka
