// Fusion planners: the exact one against all cuts there are, the others against cases worked by hand, and the plan as a
// value that ranks compare.
#include "comm/exchange/fusion_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

CostTable Affine(double alpha, double beta) {
  CostTable table;
  table.Add("ring", CostCurve({{0, alpha}, {1000, alpha + 1000 * beta}}));
  return table;
}

CostTable RandomCosts(RandomStream& random) {
  if (random.Below(2) == 0) return Affine(random.Uniform() * 10, random.Uniform());
  CostTable table;
  for (const char* name : {"ring", "tree", "torus"}) {
    std::vector<CostPoint> points;
    for (int i = 0; i < 5; ++i) points.push_back({static_cast<int64_t>(random.Below(200)), random.Uniform() * 30});
    table.Add(name, CostCurve(points));
  }
  return table;
}

FusionInput RandomInput(RandomStream& random, size_t largest) {
  FusionInput input;
  double ready = 0;
  const size_t count = 1 + random.Below(largest);
  for (size_t i = 0; i < count; ++i) {
    // Several gradients of one layer are ready together.
    if (random.Below(3) > 0) ready += random.Uniform() * 8;
    input.gradients.push_back({"g" + std::to_string(i), static_cast<int64_t>(random.Below(40)), ready});
  }
  input.backward_s = ready + random.Uniform() * 2;
  input.other_s = random.Uniform() * 20;
  return input;
}

// The end of the communication and the number of buckets of one way to cut, with the timeline written out once more.
std::pair<double, size_t> EndOf(const FusionInput& input, const CostTable& costs, uint32_t cuts) {
  double free = 0;
  int64_t bytes = 0;
  size_t buckets = 0;
  for (size_t k = 0; k < input.gradients.size(); ++k) {
    bytes += input.gradients[k].bytes;
    if (k + 1 < input.gradients.size() && (cuts >> k & 1U) == 0) continue;
    free = std::max(free, input.gradients[k].ready_s) + costs.Cheapest(bytes).seconds;
    bytes = 0;
    ++buckets;
  }
  return {free, buckets};
}

// The least of all 2^(n-1) ways to cut, and the fewest buckets that reach it.
std::pair<double, size_t> TryAllCuts(const FusionInput& input, const CostTable& costs) {
  std::vector<std::pair<double, size_t>> ends;
  for (uint32_t cuts = 0; cuts < 1U << (input.gradients.size() - 1); ++cuts) ends.push_back(EndOf(input, costs, cuts));
  const double least = std::ranges::min_element(ends)->first;
  size_t fewest = input.gradients.size();
  for (const auto& [end, buckets] : ends) {
    if (end <= least * (1 + 1e-12)) fewest = std::min(fewest, buckets);
  }
  return {least, fewest};
}

std::vector<int64_t> Counts(const FusionPlan& plan) {
  std::vector<int64_t> counts;
  for (const Bucket& bucket : plan.buckets) counts.push_back(bucket.count);
  return counts;
}

TEST(FusionPlan, OptimalEqualsTheBestOfAllCuts) {
  RandomStream random(3, 1);
  for (int round = 0; round < 400; ++round) {
    const CostTable costs = RandomCosts(random);
    const FusionInput input = RandomInput(random, 12);
    const FusionPlan plan = PlanFusion("optimal", input, costs, 1);
    const auto [least, fewest] = TryAllCuts(input, costs);
    ASSERT_NEAR(plan.buckets.back().end_s, least, least * 1e-11) << "round " << round;
    ASSERT_EQ(plan.buckets.size(), fewest) << "round " << round;
  }
}

TEST(FusionPlan, OptimalIsNeverWorseThanAnyOther) {
  RandomStream random(4, 1);
  int better_than_greedy = 0;
  for (int round = 0; round < 3000; ++round) {
    const CostTable costs = RandomCosts(random);
    const FusionInput input = RandomInput(random, 40);
    const FusionPlan optimal = PlanFusion("optimal", input, costs, 1);
    for (const FusionPlanner& planner : FusionPlanners()) {
      const FusionPlan other = PlanFusion(planner.name, input, costs, 60);
      ASSERT_LE(optimal.iteration_s, other.iteration_s * (1 + 1e-11)) << planner.name << ", round " << round;
      ASSERT_LE(optimal.exposed_s, other.exposed_s + 1e-9) << planner.name << ", round " << round;
      if (planner.name == "greedy") better_than_greedy += optimal.iteration_s < other.iteration_s * 0.999 ? 1 : 0;
    }
  }
  EXPECT_GT(better_than_greedy, 500);
}

TEST(FusionPlan, ABucketTakesAsLongAsItsLargestOwner) {
  const CostTable costs = Affine(1, 0.1);
  // All ready at once. One owner after another would send alone; together all of them send.
  FusionInput input;
  input.ranks = 4;
  for (int owner = 0; owner < 4; ++owner) input.gradients.push_back({"g" + std::to_string(owner), 100, 0, owner});
  const FusionPlan plan = PlanFusion("optimal", input, costs, 1);
  ASSERT_EQ(Counts(plan), std::vector<int64_t>{4});
  EXPECT_NEAR(plan.buckets[0].end_s, 1 + 0.1 * 200, 1e-12) << "half an all-reduce of 400 bytes";
  EXPECT_EQ(plan.buckets[0].bytes, 400);
  EXPECT_NEAR(PlanFusion("none", input, costs, 1).buckets.back().end_s, 4 * (1 + 0.1 * 200), 1e-12);
  // Now 10 bytes more go to all.
  input.gradients.push_back({"loss", 10, 0});
  EXPECT_NEAR(PlanFusion("single", input, costs, 1).buckets[0].end_s, 1 + 0.1 * 210, 1e-12);
}

TEST(FusionPlan, BucketsCoverAllGradientsInOneStream) {
  RandomStream random(5, 1);
  for (int round = 0; round < 300; ++round) {
    const CostTable costs = RandomCosts(random);
    const FusionInput input = RandomInput(random, 30);
    for (const FusionPlanner& planner : FusionPlanners()) {
      const FusionPlan plan = PlanFusion(planner.name, input, costs, 60);
      EXPECT_EQ(plan.planner, planner.name);
      int64_t next = 0;
      double free = 0;
      for (const Bucket& bucket : plan.buckets) {
        ASSERT_EQ(bucket.first, next);
        ASSERT_GE(bucket.count, 1);
        int64_t bytes = 0;
        for (int64_t i = 0; i < bucket.count; ++i) bytes += input.gradients[static_cast<size_t>(next + i)].bytes;
        ASSERT_EQ(bucket.bytes, bytes);
        next += bucket.count;
        ASSERT_EQ(bucket.begin_s, std::max(free, input.gradients[static_cast<size_t>(next) - 1].ready_s));
        ASSERT_EQ(bucket.end_s, bucket.begin_s + costs.Cheapest(bytes).seconds);
        ASSERT_EQ(bucket.algorithm, costs.Cheapest(bytes).algorithm);
        free = bucket.end_s;
      }
      ASSERT_EQ(next, static_cast<int64_t>(input.gradients.size()));
      ASSERT_DOUBLE_EQ(plan.exposed_s, std::max(0.0, free - input.backward_s));
      ASSERT_DOUBLE_EQ(plan.iteration_s, input.other_s + std::max(free, input.backward_s));
    }
  }
}

TEST(FusionPlan, MoreTimeOrBytesNeverHelp) {
  RandomStream random(6, 1);
  for (int round = 0; round < 500; ++round) {
    const FusionInput input = RandomInput(random, 20);
    const double alpha = random.Uniform() * 10;
    const double beta = random.Uniform();
    const double end = PlanFusion("optimal", input, Affine(alpha, beta), 1).iteration_s;
    const double margin = end * 1e-11;
    EXPECT_GE(PlanFusion("optimal", input, Affine(alpha + 1, beta), 1).iteration_s, end - margin);
    EXPECT_GE(PlanFusion("optimal", input, Affine(alpha, beta * 2), 1).iteration_s, end - margin);
    FusionInput more = input;
    more.gradients[random.Below(more.gradients.size())].bytes += 10;
    EXPECT_GE(PlanFusion("optimal", more, Affine(alpha, beta), 1).iteration_s, end - margin);
    FusionInput later = input;
    for (size_t i = random.Below(later.gradients.size()); i < later.gradients.size(); ++i) {
      later.gradients[i].ready_s += 3;
    }
    later.backward_s += 3;
    EXPECT_GE(PlanFusion("optimal", later, Affine(alpha, beta), 1).iteration_s, end - margin);
  }
}

// A start-up of 2 s, 1 s a byte.
FusionInput WorkedCase() {
  return {{{"fc", 1, 1.0}, {"conv4", 1, 2.0}, {"conv3", 4, 5.0}, {"conv2", 1, 5.5}, {"conv1", 1, 20.0}}, 20.0, 9.0};
}

TEST(FusionPlan, GreedyMergesAsWorkedByHand) {
  // fc could start at 1 and end at 4: conv4 is ready at 2, and 1 s of waiting costs less than a start-up: they join and
  // run from 2 to 6. conv3 is ready at 5: 3 s of waiting cost more. It could start at 6, when conv2 is ready already:
  // they join and run from 6 to 13. conv1 is ready at 20, long after.
  const FusionPlan plan = PlanFusion("greedy", WorkedCase(), Affine(2, 1), 1);
  EXPECT_EQ(Counts(plan), (std::vector<int64_t>{2, 2, 1}));
  EXPECT_DOUBLE_EQ(plan.buckets[0].begin_s, 2);
  EXPECT_DOUBLE_EQ(plan.buckets[0].end_s, 6);
  EXPECT_DOUBLE_EQ(plan.buckets[1].begin_s, 6);
  EXPECT_DOUBLE_EQ(plan.buckets[1].end_s, 13);
  EXPECT_DOUBLE_EQ(plan.buckets[2].end_s, 23);
  EXPECT_DOUBLE_EQ(plan.exposed_s, 3);
  EXPECT_DOUBLE_EQ(plan.iteration_s, 32);
}

TEST(FusionPlan, GreedyChainsToOneBucketWhereTheExactPlanDoesNot) {
  // Each wait is shorter than the start-up of 10 s, so the pass joins all and communicates 200 bytes after the end.
  // Three gradients a bucket take 13 s and come every 15: each bucket has ended when the next is ready.
  FusionInput input;
  for (int i = 0; i < 20; ++i) input.gradients.push_back({"g", 10, 5.0 * (i + 1)});
  input.backward_s = 100;
  const CostTable costs = Affine(10, 0.1);
  EXPECT_EQ(Counts(PlanFusion("greedy", input, costs, 1)), (std::vector<int64_t>{20}));
  EXPECT_DOUBLE_EQ(PlanFusion("greedy", input, costs, 1).exposed_s, 30);
  EXPECT_DOUBLE_EQ(PlanFusion("optimal", input, costs, 1).exposed_s, 13);
}

TEST(FusionPlan, SimplePlannersDoWhatTheyAreNamedFor) {
  const FusionInput input = WorkedCase();
  const CostTable costs = Affine(2, 1);
  EXPECT_EQ(Counts(PlanFusion("single", input, costs, 1)), (std::vector<int64_t>{5}));
  EXPECT_DOUBLE_EQ(PlanFusion("single", input, costs, 1).exposed_s, 10);
  EXPECT_EQ(Counts(PlanFusion("none", input, costs, 1)), (std::vector<int64_t>{1, 1, 1, 1, 1}));
  EXPECT_EQ(Counts(PlanFusion("fixed", input, costs, 2)), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(Counts(PlanFusion("fixed", input, costs, 1 << 20)), (std::vector<int64_t>{5}));
  EXPECT_EQ(Counts(PlanFusion("two", input, costs, 1)), (std::vector<int64_t>{4, 1}));
  // conv1 alone at the end is as good as anything; with it fixed, one bucket before it is the fewest.
  EXPECT_EQ(Counts(PlanFusion("optimal", input, costs, 1)), (std::vector<int64_t>{4, 1}));
  FusionInput one;
  one.gradients = {{"w", 3, 1.0}};
  one.backward_s = 1;
  for (const FusionPlanner& planner : FusionPlanners()) {
    EXPECT_EQ(Counts(PlanFusion(planner.name, one, costs, 1)), (std::vector<int64_t>{1})) << planner.name;
    const FusionPlan nothing = PlanFusion(planner.name, {{}, 4.0, 5.0}, costs, 1);
    EXPECT_TRUE(nothing.buckets.empty());
    EXPECT_EQ(nothing.iteration_s, 9);
  }
}

TEST(FusionPlan, TextComesBackAndTheHashSeesEveryField) {
  RandomStream random(7, 1);
  const FusionPlan plan = PlanFusion("none", RandomInput(random, 20), RandomCosts(random), 1);
  EXPECT_EQ(PlanOfText(ToText(plan)), plan);
  EXPECT_EQ(HashOf(PlanOfText(ToText(plan))), HashOf(plan));
  const std::vector<std::function<void(FusionPlan&)>> changes = {
      [](FusionPlan& p) { p.planner = "two"; },
      [](FusionPlan& p) { ++p.gradients_hash; },
      [](FusionPlan& p) { p.exposed_s += 1e-9; },
      [](FusionPlan& p) { p.iteration_s += 1e-9; },
      [](FusionPlan& p) { p.buckets.pop_back(); },
      [](FusionPlan& p) { ++p.buckets[0].first; },
      [](FusionPlan& p) { ++p.buckets[0].count; },
      [](FusionPlan& p) { ++p.buckets[0].bytes; },
      [](FusionPlan& p) { p.buckets[0].algorithm += "s"; },
      [](FusionPlan& p) { p.buckets[0].begin_s += 1e-9; },
      [](FusionPlan& p) { p.buckets[0].end_s += 1e-9; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    FusionPlan changed = plan;
    changes[i](changed);
    EXPECT_NE(HashOf(changed), HashOf(plan)) << "change " << i;
  }
}

TEST(FusionPlan, GradientsHashSeesNamesOrderAndBytesButNotTimes) {
  const std::vector<ReadyGradient> gradients = WorkedCase().gradients;
  std::vector<ReadyGradient> other = gradients;
  other[1].ready_s += 1;
  EXPECT_EQ(HashOf(other), HashOf(gradients));
  other[1].bytes += 1;
  EXPECT_NE(HashOf(other), HashOf(gradients));
  other = gradients;
  other[1].name = "conv5";
  EXPECT_NE(HashOf(other), HashOf(gradients));
  other = gradients;
  std::swap(other[0], other[1]);
  EXPECT_NE(HashOf(other), HashOf(gradients));
}

TEST(FusionPlan, ErrorsNameWhatIsNear) {
  try {
    (void)PlanFusion("optimum", WorkedCase(), Affine(1, 1), 1);
    FAIL() << "an unknown planner is an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(error.hint().find("\"optimal\""), std::string::npos) << error.hint();
  }
  try {
    (void)PlanFusion("xyz", WorkedCase(), Affine(1, 1), 1);
    FAIL() << "an unknown planner is an error";
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("optimal, greedy, two, fixed, single, none"), std::string::npos) << error.hint();
  }
  EXPECT_THROW((void)PlanFusion("fixed", WorkedCase(), Affine(1, 1), 0), Error);
  for (const char* bad : {"", "plan optimal 1 0\n", "plan optimal 1 0 0 0\n", "bucket 0 1 1 ring 0 0\n",
                          "plan optimal 1 0 0\nbucket 0 x 1 ring 0 0\n", "plan optimal 1 0 0\nbucket 0 1 1 ring 0\n"}) {
    try {
      (void)PlanOfText(bad);
      ADD_FAILURE() << bad << " is no plan";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData) << bad;
    }
  }
}

TEST(FusionPlan, CutsTheBucketThatLiesAcross) {
  FusionInput input;
  for (int i = 0; i < 5; ++i) input.gradients.push_back({std::to_string(i), 10 * (i + 1), 0.1 * i});
  FusionPlan plan;
  plan.buckets = {{0, 2, 30, "ring", 0, 1}, {2, 3, 120, "ring", 1, 2}};
  const FusionPlan whole = plan;
  for (const int64_t at : {0, 2, 5}) CutBucket(plan, input, at);
  EXPECT_EQ(plan, whole);
  CutBucket(plan, input, 4);
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.buckets[1], (Bucket{2, 2, 70, "ring", 1, 2}));
  EXPECT_EQ(plan.buckets[2], (Bucket{4, 1, 50, "ring", 1, 2}));
}

// Another rank's plan is taken only if it is one of these gradients.
TEST(FusionPlan, PlansOfOtherGradientsAreRefused) {
  FusionInput input;
  for (int i = 0; i < 3; ++i) input.gradients.push_back({"g", 8, 0});
  FusionPlan plan;
  plan.buckets = {{0, 2, 16, "ring"}, {2, 1, 8, "ring"}};
  EXPECT_NO_THROW(CheckPlan(plan, input));
  const auto refused = [&](size_t bucket, int64_t Bucket::*field, int64_t value) {
    FusionPlan other = plan;
    other.buckets[bucket].*field = value;
    try {
      CheckPlan(other, input);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kPeer;
    }
    return false;
  };
  for (const int64_t wrong : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{4}, INT64_MAX}) {
    EXPECT_TRUE(refused(1, &Bucket::first, wrong)) << wrong;
    EXPECT_TRUE(refused(0, &Bucket::count, wrong)) << wrong;
    EXPECT_TRUE(refused(1, &Bucket::count, wrong)) << wrong;
    EXPECT_TRUE(refused(1, &Bucket::bytes, wrong)) << wrong;
  }
  plan.buckets.pop_back();
  EXPECT_THROW(CheckPlan(plan, input), Error);
  EXPECT_THROW(CheckPlan({}, input), Error);
  EXPECT_NO_THROW(CheckPlan({}, {}));
}

}  // namespace
}  // namespace moka
