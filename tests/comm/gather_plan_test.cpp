// Plans of what is gathered for a forward pass: against all cuts there are, with the forward pass and its waits written
// out.
#include "comm/exchange/gather_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/rng.h"

namespace moka {
namespace {

// How long a forward pass that reads weight i at needed_s[i] stands still, with one bucket behind the other from its
// beginning. `ends`: one past the last weight of each bucket.
double Waits(const std::vector<double>& needed_s, const std::vector<int64_t>& bytes, const std::vector<size_t>& ends,
             const CostTable& costs) {
  double there = 0;   // when the bucket is there
  double waited = 0;  // so far
  size_t first = 0;
  for (const size_t end : ends) {
    int64_t sum = 0;
    for (size_t i = first; i < end; ++i) sum += bytes[i];
    there += costs.Cheapest(sum).seconds;
    waited = std::max(waited, there - needed_s[first]);
    first = end;
  }
  return waited;
}

TEST(GatherPlan, TheForwardPassWaitsAsLittleAsWithTheBestOfAllCuts) {
  RandomStream random(7, 1);
  for (int round = 0; round < 300; ++round) {
    const double alpha = random.Uniform() * 6;
    const double beta = random.Uniform();
    CostTable costs;
    costs.Add("direct", CostCurve({{0, alpha}, {1000, alpha + 1000 * beta}}));
    const size_t summed = random.Below(4);
    const size_t gathered = 1 + random.Below(9);
    FusionInput input;
    for (size_t i = 0; i < summed + gathered; ++i) {
      input.gradients.push_back(
          {"g" + std::to_string(i), static_cast<int64_t>(random.Below(40)), static_cast<double>(i)});
    }
    input.backward_s = static_cast<double>(summed + gathered);
    std::vector<double> needed_s = {0};
    std::vector<int64_t> bytes = {input.gradients[summed].bytes};
    for (size_t i = 1; i < gathered; ++i) {
      needed_s.push_back(needed_s.back() + (random.Below(3) > 0 ? random.Uniform() * 8 : 0));
      bytes.push_back(input.gradients[summed + i].bytes);
    }
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t cuts = 0; cuts < 1U << (gathered - 1); ++cuts) {
      std::vector<size_t> ends;
      for (size_t i = 0; i + 1 < gathered; ++i) {
        if ((cuts >> i & 1U) != 0) ends.push_back(i + 1);
      }
      ends.push_back(gathered);
      least = std::min(least, Waits(needed_s, bytes, ends, costs));
    }
    const FusionPlan plan = PlanWithGathers("optimal", input, needed_s, costs, 1);
    std::vector<size_t> ends;
    int64_t next = 0;
    double sums_exposed = 0;
    double end_s = 0;
    for (const Bucket& bucket : plan.buckets) {
      ASSERT_EQ(bucket.first, next);
      ASSERT_GE(bucket.begin_s, end_s);
      next += bucket.count;
      end_s = bucket.end_s;
      const bool is_gathered = bucket.first >= static_cast<int64_t>(summed);
      ASSERT_TRUE(is_gathered || next <= static_cast<int64_t>(summed)) << "round " << round;
      if (is_gathered) ends.push_back(static_cast<size_t>(next) - summed);
      if (!is_gathered && next == static_cast<int64_t>(summed)) sums_exposed = end_s - static_cast<double>(summed - 1);
    }
    ASSERT_EQ(next, static_cast<int64_t>(summed + gathered));
    ASSERT_NEAR(Waits(needed_s, bytes, ends, costs), least, 1e-9) << "round " << round;
    ASSERT_NEAR(plan.exposed_s, sums_exposed + least, 1e-9) << "round " << round;
    ASSERT_EQ(plan.gradients_hash, HashOf(input.gradients));
  }
}

TEST(GatherPlan, TheFirstLayerDoesNotWaitForTheLast) {
  CostTable costs;
  costs.Add("direct", CostCurve({{0, 0.1}, {1000, 1000.1}}));
  FusionInput input;
  for (const int64_t bytes : {1, 1, 500}) input.gradients.push_back({"w", bytes, 0});
  // Small weights that are read at once go together; the large one has the time until it is read.
  const std::vector<double> needed_s = {0, 0.01, 600};
  const FusionPlan plan = PlanWithGathers("optimal", input, needed_s, costs, 1);
  ASSERT_EQ(plan.buckets.size(), 2U);
  EXPECT_EQ(plan.buckets[0].count, 2);
  EXPECT_NEAR(plan.exposed_s, 2.1, 1e-9);
}

TEST(GatherPlan, WeightsOfDifferentOwnersTravelTogether) {
  CostTable costs;
  costs.Add("direct", CostCurve({{0, 0.1}, {1000, 1000.1}}));
  FusionInput input;
  input.ranks = 2;
  for (const int owner : {0, 1, 0, 1}) input.gradients.push_back({"w", 100, 0, owner});
  const std::vector<double> needed_s = {0, 1, 200, 201};
  const FusionPlan plan = PlanWithGathers("optimal", input, needed_s, costs, 1);
  ASSERT_EQ(plan.buckets.size(), 2U);
  EXPECT_EQ(plan.buckets[0].count, 2);
  EXPECT_NEAR(plan.exposed_s, 100.1, 1e-9);
}

TEST(GatherPlan, WithoutGathersItIsThePlanOfTheSums) {
  CostTable costs;
  costs.Add("direct", CostCurve({{0, 1}, {1000, 1001}}));
  FusionInput input{.gradients = {{"a", 10, 0}, {"b", 20, 30}}, .backward_s = 40};
  EXPECT_EQ(PlanWithGathers("optimal", input, {}, costs, 1), PlanFusion("optimal", input, costs, 1));
}

}  // namespace
}  // namespace moka
