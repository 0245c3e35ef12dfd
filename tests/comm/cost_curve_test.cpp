// Cost curves: interpolation, order, fits, the cheapest algorithm, and the way between ranks.
#include "comm/exchange/cost_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace moka {
namespace {

TEST(CostCurve, IsALineBetweenPointsAndGoesOnLikeTheLast) {
  const CostCurve curve({{4000, 5e-3}, {1000, 2e-3}, {2000, 3e-3}});
  EXPECT_EQ(curve.Seconds(1000), 2e-3);
  EXPECT_DOUBLE_EQ(curve.Seconds(1500), 2.5e-3);
  EXPECT_DOUBLE_EQ(curve.Seconds(3000), 4e-3);
  EXPECT_DOUBLE_EQ(curve.Seconds(14000), 15e-3);
  EXPECT_EQ(curve.Seconds(10), 2e-3);  // no message is cheaper than its start-up
  EXPECT_EQ(curve.Seconds(0), 2e-3);
  const CostCurve flat_end({{1000, 1e-3}, {2000, 2e-3}, {3000, 2e-3}});
  EXPECT_DOUBLE_EQ(flat_end.Seconds(4000), 3e-3);
  const CostCurve one({{1000, 1e-3}});
  EXPECT_EQ(one.Seconds(5000), 1e-3);
}

TEST(CostCurve, AveragesTimesThatFall) {
  const CostCurve curve({{1, 1.0}, {2, 4.0}, {3, 2.0}, {4, 3.0}, {5, 6.0}});
  std::vector<double> seconds;
  for (const CostPoint& point : curve.points()) seconds.push_back(point.seconds);
  EXPECT_EQ(seconds, (std::vector<double>{1, 3, 3, 3, 6}));
  const CostCurve twice({{8, 2.0}, {8, 1.5}, {9, 3.0}});
  ASSERT_EQ(twice.points().size(), 2U);
  EXPECT_EQ(twice.points()[0].seconds, 1.5);
}

TEST(CostCurve, NeverFallsWhateverWasMeasured) {
  RandomStream random(1, 1);
  for (int round = 0; round < 300; ++round) {
    std::vector<CostPoint> points(1 + random.Below(8));
    for (CostPoint& point : points) point = {static_cast<int64_t>(random.Below(1000)), random.Uniform()};
    const CostCurve curve(points);
    double before = 0;
    for (int64_t bytes = 0; bytes < 1500; bytes += 7) {
      ASSERT_GE(curve.Seconds(bytes), before) << "at " << bytes;
      before = curve.Seconds(bytes);
    }
  }
}

TEST(CostCurve, FitFindsStartUpAndBandwidth) {
  std::vector<CostPoint> points;
  for (int64_t bytes = 4096; bytes <= 1 << 28; bytes *= 4) {
    points.push_back({bytes, 2e-5 + 1e-9 * static_cast<double>(bytes)});
  }
  const CostLine exact = CostCurve(points).Fit();
  EXPECT_NEAR(exact.alpha_s, 2e-5, 1e-12);
  EXPECT_NEAR(exact.beta_s, 1e-9, 1e-16);
  EXPECT_NEAR(exact.r_squared, 1, 1e-9);
  // 5 % of noise move alpha by no more than a tenth, although the largest message takes 10,000 times as long.
  for (size_t i = 0; i < points.size(); ++i) points[i].seconds *= i % 2 == 0 ? 1.05 : 0.95;
  const CostLine noisy = CostCurve(points).Fit();
  EXPECT_NEAR(noisy.alpha_s, 2e-5, 2e-6);
  EXPECT_NEAR(noisy.beta_s, 1e-9, 1e-10);
  EXPECT_LT(noisy.r_squared, 1);
  EXPECT_GT(noisy.r_squared, 0.9);
  const CostLine convex = CostCurve({{1000, 1e-6}, {2000, 9e-6}}).Fit();
  EXPECT_EQ(convex.alpha_s, 0);  // a line through both would begin below 0
  EXPECT_GT(convex.beta_s, 0);
  const CostLine point = CostCurve({{1000, 3e-6}}).Fit();
  EXPECT_EQ(point.alpha_s, 3e-6);
  EXPECT_EQ(point.beta_s, 0);
}

CostTable TwoAlgorithms() {
  CostTable table;
  table.Add("ring", CostCurve({{0, 10.0}, {100, 20.0}}));
  table.Add("hierarchical:4", CostCurve({{0, 4.0}, {50, 14.0}}));
  return table;
}

TEST(CostTable, NamesTheCheapestOfEachSize) {
  const CostTable table = TwoAlgorithms();
  EXPECT_EQ(table.Cheapest(0).algorithm, "hierarchical:4");
  EXPECT_DOUBLE_EQ(table.Cheapest(50).seconds, 14.0);
  EXPECT_EQ(table.Cheapest(59).algorithm, "hierarchical:4");
  EXPECT_EQ(table.Cheapest(60).algorithm, "ring");  // equal there: the first added
  EXPECT_EQ(table.Cheapest(1000).algorithm, "ring");
  EXPECT_DOUBLE_EQ(table.Cheapest(1000).seconds, 110.0);
  const CostCurve least = table.Minimum();
  ASSERT_EQ(least.points().size(), 3U);
  EXPECT_DOUBLE_EQ(least.points()[1].seconds, 14.0);
  EXPECT_DOUBLE_EQ(least.points()[2].seconds, 20.0);
  EXPECT_EQ(table.Of("ring").Seconds(0), 10.0);
}

TEST(CostTable, ComesBackFromTextBitForBit) {
  RandomStream random(2, 1);
  CostTable table;
  for (const char* name : {"ring", "halving_doubling", "hierarchical:16"}) {
    std::vector<CostPoint> points;
    for (int64_t bytes = 1; bytes < int64_t{1} << 40; bytes *= 7) points.push_back({bytes, random.Uniform() * 1e-3});
    table.Add(name, CostCurve(points));
  }
  const CostTable back = CostTable::FromText(table.ToText());
  EXPECT_EQ(back.ToText(), table.ToText());
  for (int64_t bytes = 1; bytes < int64_t{1} << 41; bytes *= 3) {
    EXPECT_EQ(back.Cheapest(bytes).seconds, table.Cheapest(bytes).seconds);
    EXPECT_EQ(back.Cheapest(bytes).algorithm, table.Cheapest(bytes).algorithm);
  }
  EXPECT_TRUE(CostTable::FromText("").empty());
}

TEST(CostTable, BadTextIsAnErrorWithItsLine) {
  for (const std::string bad : {"ring", "ring 5", "ring 5:x", "ring 5:-1", "ring -5:1", "ring 5:nan", " 5:1",
                                "ring 5:1 ", "ring 5:1e400", "good 1:1"}) {
    try {
      (void)CostTable::FromText("good 1:1\n" + bad + "\n");
      ADD_FAILURE() << bad << " is no curve";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData) << bad;
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace moka
