#include "graph/memory_plan.h"

#include <gtest/gtest.h>

#include "core/rng.h"

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

}  // namespace
}  // namespace moka
